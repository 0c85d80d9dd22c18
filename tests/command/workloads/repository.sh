# A repository out of what git fast-import reads on standard input, from its first commit to its packs.
set -e
git init -q --bare -b main made
git -C made fast-import --quiet
git clone -q "file://$PWD/made" work 2>said  # by its other end, which comes back as "remote: ..."
cd work
git log --stat -M --graph --all | sha256sum
git log -p -S 'line 7 of' --format=%H -- d1 | sha256sum
git grep --threads=4 -c 'line 4[0-9]' | sha256sum
for branch in side0 side1 side2; do git checkout -q $branch; git status --short; done
git checkout -q main
git blame "$(git ls-files | head -n 1)" | sha256sum
for file in $(git ls-files | head -n 40); do echo "more" >> $file; done
git stash -q; git stash pop -q; git commit -qam 'more'; git rev-parse HEAD
git -c pack.threads=4 repack -adfq --window=20
git reflog expire --expire=now --all
git -c pack.threads=4 gc -q --prune=now --aggressive
git fsck --full --strict
git cat-file --batch-all-objects --batch-check | sha256sum
git archive HEAD | sha256sum
git bundle create -q ../bundle --all
git clone -q ../bundle ../again
git -C ../again rev-list --objects --all | sort | sha256sum
git merge-base --octopus origin/side0 origin/side1 HEAD || echo no base
git show no-such-commit
