#!/bin/sh
# The prose: excerpts, figures, links, commands and spelling.
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1

for file in README.md exercises/README.md evidence/README.md; do
  [ -f "$file" ] || notok "$file" "it is not there"
done
perl .github/docs.pl .

# -------------------------------------------- that each of these can also fail

copy=$WORK/copy
mkdir -p "$copy/evidence" "$copy/exercises"
cat >"$copy/convolution.cu" <<'EOS'
void blur() {
  // first
  one();
  two();

  three();
  usage("--cases LIST");
}
EOS
echo 'blur 0.0363 ms, 16,777,216 pixels, 2583.4 GB/s' >"$copy/evidence/run.txt"
cat >"$copy/good" <<'EOS'
# A good one

See [the end](#the-end), [the code](convolution.cu) and `evidence/run.txt`.

<!-- from convolution.cu -->
```cpp
// first
one();
// ...
three();
```

<!-- sketch -->
```cpp
anything();
```

<!-- figures: evidence/run.txt but 2.6 -->
| blur | 0.0363 ms or 0.036 ms | 2,583 GB/s | 16777216 | 5 of 13 | 2.6 |

<!-- figures: published -->
A T4 took 3.242 ms.

```sh
nvcc -std=c++17 -o convolution convolution.cu && ./convolution --cases odd
```

## The end
EOS
# docs_see NAME WORDS SED
docs_see() {
  sed "$3" "$copy/good" >"$copy/README.md"
  perl .github/docs.pl "$copy" >"$WORK/said" 2>&1
  case $2 in
    '') judge "docs: $1" 0 "!not ok && ok - figures of README.md" $? "$WORK/said" ;;
    *) judge "docs: $1" 0 "not ok - && $2" $? "$WORK/said" ;;
  esac
}
docs_see "a good file passes" "" ''
docs_see "an excerpt that is not so" "excerpts of README.md: line 6: convolution.cu" 's/^one/uno/'
docs_see "an excerpt out of order" 'excerpts' 's/^three/first/'
docs_see "an excerpt that skips a line" 'excerpts' 's/^one();/&\
three();/'
docs_see "an excerpt of no file" 'excerpts' 's/from convolution/from none/'
docs_see "a block without a source" 'excerpts of README.md: line' '/sketch/d'
docs_see "a figure that is not so" 'figures of README.md: line 19: 0.0364 is not in' 's/0.0363/0.0364/'
docs_see "a figure rounded wrongly" '2,584 is not in' 's/2,583/2,584/'
docs_see "more digits than were measured" '2583.40 is not in' 's/2,583/2583.40/'
docs_see "a large number that is not so" '16777215 is not in' 's/16777216/16777215/'
docs_see "a figure beside the excepted" '2.7 is not in' 's/but 2.6/but 2.5/;s/ 2.6 / 2.7 /'
docs_see "an exception for nothing" '"but 2.5"' 's/but 2.6/but 2.6 2.5/'
docs_see "figures of no file" 'no file evidence/none' 's/run.txt but/none.txt but/'
docs_see "a measured figure without a source" 'measured figures' '/published/d'
docs_see "a link to no file" 'links of README.md: line 3: none.cu' 's/(convolution.cu)/(none.cu)/'
docs_see "a link to no heading" 'no heading for #the-ende' 's/#the-end/#the-ende/'
docs_see "a file that does not exist" 'evidence/none.txt does not exist' 's/.evidence.run.txt./`evidence\/none.txt`/'
docs_see "a program never built" './convolve is built by no' 's/ .\/convolution/ .\/convolve/'
docs_see "an option that does not exist" 'convolution.cu knows no --case' 's/--cases odd/--case odd/'

# --------------------------------------------------------------------- spelling

# prose FILE: what is to be spelled in it. Of .md, all but code; of sources,
# comments, less what is a name in the code.
prose() {
  perl -e '
    local $/;
    $_ = <>;
    if ($ARGV =~ /\.md$/) {
      s/^```.*?^\s*```//gms, s/^ *```.*?^ *```//gms;
      s/(`+).+?\1/ /gs, s/<!--.*?-->/ /gs, s/<[^>]*>/ /g, s/\]\([^)]*\)/]/g;
      s{\S*\w[./]\w\S*}{ }g;
    } else {
      s/^#!.*//;
      $_ = join "\n", $ARGV =~ /\.(cuh?|cpp|h)$/ ? m{(?<![:"])//+ ?(.*)}g
                                               : m{(?:^|\s)# ?(.*)}g;
      s/\S*[\d_()=*<>\/\\.:"\$%{}\[\]`|-]\S*\w/ /g;
    }
    s/\w*[a-z][A-Z]\w*|\b[A-Z]{2,}\w*|\w*[\d_]\w*/ /g, s/\x27s\b//g;
    print "$_\n";' "$1"
}
# unknown FILE...: the words that neither the speller nor the word list knows.
unknown() {
  for text; do prose "$text"; done | speller | sort -u |
    grep -vixF -f .github/words.txt
}
if have aspell && echo word | aspell --lang=en list >/dev/null 2>&1; then
  speller() { aspell --lang=en --encoding=utf-8 --mode=none list; }
elif have hunspell && echo word | hunspell -d en_GB,en_US -l >/dev/null 2>&1; then
  speller() { hunspell -d en_GB,en_US -i utf-8 -l; }
else
  speller() { return 1; }
  skip "spelling" "neither aspell nor hunspell with English is installed"
fi
if echo word | speller >/dev/null; then
  for file in $(repo_files '\.(md|cuh?|cpp|h|sh|pl|ya?ml)$|no-gpu/nvcc$'); do
    unknown "$file" >"$WORK/unknown"
    if [ -s "$WORK/unknown" ]; then
      notok "spelling of $file" "$(tr '\n' ' ' <"$WORK/unknown")"
    else
      ok "spelling of $file"
    fi
  done
  printf 'A %s pixel in `%s` code.\n' wordd wurdd >"$WORK/bad.md"
  if [ "$(unknown "$WORK/bad.md")" = wordd ]; then
    ok "a misspelling would be seen"
  else
    notok "a misspelling would be seen" "it was not"
  fi
fi
if ! have codespell; then
  skip "codespell" "it is not installed"
elif codespell -q 3 -I .github/words.txt --ignore-regex '\bk[A-Z]\w*' \
  -S .git,.scratch,evidence . >"$WORK/said" 2>&1; then
  ok "codespell"
else
  notok "codespell" "it found something" "$WORK/said"
fi
