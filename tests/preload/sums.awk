# Sums of the counts of mutexes over all sites in `file`.
index($0, file "+0x") && NF >= 12 {
  commits += $(NF - 9); conflicts += $(NF - 8); capacity += $(NF - 7); fallbacks += $(NF - 4); taken += $(NF - 1); waited += $NF
}
END {
  printf "commits %d conflicts %d capacity %d fallbacks %d taken %d waited %d\n",
         commits, conflicts, capacity, fallbacks, taken, waited
}
