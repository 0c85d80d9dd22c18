# What Doxygen reads in place of a file. The comment above a header's namespace becomes the page of that header, set as it
# is. In Markdown a heading gets the name by which its page links to it.

function name_of(heading) {
  sub(/^#+ /, "", heading)
  heading = tolower(heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  return heading
}

FNR == 1 && FILENAME ~ /\.md$/ {
  markdown = 1
  while ((getline line < FILENAME) > 0) {
    while (match(line, /\]\(#[a-z0-9_-]+\)/)) {
      linked[substr(line, RSTART + 3, RLENGTH - 4)] = 1
      line = substr(line, RSTART + RLENGTH)
    }
  }
}
markdown {
  # Doxygen finds other pages but not their headings, finds headers by their names, and has no pages for folders.
  gsub(/\.md#[a-z0-9_-]+\)/, ".md)")
  while (match($0, /\[[^]]*\]\([^)]*(\.hpp|\/)\)/)) {
    text = substr($0, RSTART + 1, RLENGTH)
    sub(/\].*/, "", text)
    $0 = substr($0, 1, RSTART - 1) text substr($0, RSTART + RLENGTH)
  }
  if (/^#+ / && name_of($0) in linked) $0 = $0 " {#" name_of($0) "}"
  print
  next
}

/^namespace/ { inside = 1 }
!inside && /^\/\/( |$)/ {
  if (!quoted) print "//! \\file\n//! \\verbatim"
  quoted = 1
  print "//! " substr($0, 4)
  next
}
quoted { print "//! \\endverbatim"; quoted = 0 }
{ print }
