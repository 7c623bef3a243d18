#!/bin/sh
# The user's own picture: what is read, refused and written, and what is said.
# SPDX-License-Identifier: MIT
#
# Every file of .github/pictures/cases.pl goes through the program: exit code,
# words, the edges it writes, and nothing else left in the folder. Then names
# that are no files, streams, and outputs that cannot be written. The reader
# alone is held to every grey pixel by .github/pictures/reader_test.cu.

# shellcheck disable=SC2016  # the inner shells expand what is quoted
# shellcheck source=.github/lib.sh
. "$(dirname "$0")/../lib.sh"

cd "$WORK" || exit 1
program=$WORK/convolution
nvcc="sh $ROOT/exercises/no-gpu/nvcc -std=c++17 -O1 -arch=sm_75"

build_program() {
  # shellcheck disable=SC2086
  $nvcc -o "$program" "$ROOT/convolution.cu" >"$WORK/program.log" 2>&1 ||
    notok 'the program builds' 'it does not' "$WORK/program.log"
}
build_reader() {
  # shellcheck disable=SC2086
  $nvcc -fsanitize=address,undefined -o "$WORK/reader_test" \
    "$ROOT/.github/pictures/reader_test.cu" >"$WORK/reader.log" 2>&1 ||
    notok 'the reader test builds' 'it does not' "$WORK/reader.log"
}
run_parallel eval build_program build_reader
perl "$ROOT/.github/pictures/cases.pl" list files || exit 1
[ -x "$program" ] || exit 1
if [ -x "$WORK/reader_test" ]; then
  expect 'every grey pixel, as a file and as a stream; round trips' 0 \
    'files read, 0 faults' "$WORK/reader_test" files
fi

# in_folder COMMAND [ARG]...: runs it in a new folder, `here`, into which it
# brings the files that $bring names. Leaves code, here.out, here.err, here.said
# (both) and, in names, all that is in the folder afterwards.
bring=
in_folder() {
  here=$(mktemp -d "$WORK/run.XXXXXX")
  # shellcheck disable=SC2086
  [ -z "$bring" ] || (cd "$WORK/files" && cp $bring "$here")
  (cd "$here" && within 60 "$@") </dev/null >"$here.out" 2>"$here.err"
  code=$?
  cat "$here.out" "$here.err" >"$here.said"
  names=$(cd "$here" && find . ! -name . | sort | tr '\n' ' ')
}

# verdict NAME EXIT WORDS FILES [AMISS]: judges what in_folder left. FILES are
# all that may be there. Input that is refused leaves no word on stdout. AMISS is
# what the caller has found wrong.
verdict() {
  why=${5:-}
  [ "$code" = "$2" ] || why="$why exit $code, want $2."
  why=$why$(lacks "$here.said" "$3")
  [ "$names" = "$4" ] || why="$why there are \"$names\", want \"$4\"."
  if [ -z "$why" ]; then
    ok "$1"
    rm -rf "$here" "$here".*
  else
    notok "$1" "${why# }" "$here.said"
  fi
}

# same FILE WANT: says what differs, nothing where they are equal.
same() { cmp "$1" "$2" 2>&1 | sed 's/^/ /'; }

tab=$(printf '\t')
while IFS=$tab read -r name exit words threshold _ <&3; do
  bring=$name
  in_folder "$program" --no-timing --threshold "$threshold" -o edges.pgm "$name"
  if [ "$exit" = 0 ]; then
    there=$(printf './%s\n' "$name" edges.pgm | sort | tr '\n' ' ')
    verdict "$name, edges exact" 0 "$words" "$there" \
      "$(same "$here/edges.pgm" "files/$name.want")"
  else
    amiss=
    [ ! -s "$here.out" ] || amiss=' it printed results.'
    verdict "$name" "$exit" "$name: && $words" "./$name " "$amiss"
  fi
done 3<files.list

# Long and narrow: one has more rows than 65535 blocks of 32 rows cover.
bring=
mkdir long
perl -e '
  for ([1, 2097121], [1, 99999], [99999, 1]) {
    open my $file, ">:raw", "long/@$_[0]x@$_[1]" or die "$!\n";
    print $file "P5 @$_ 255 ", "\x20\xff" x 1048560, " ";
  }'
for name in 1x99999 99999x1 1x2097121; do
  in_folder "$program" --no-timing -o edges.pgm "$WORK/long/$name"
  verdict "$name" 0 'result: pass' './edges.pgm '
done

# Names that are no files, and files that cannot be read.
in_folder "$program" .
verdict 'a folder' 2 '.: is a directory' ''
in_folder "$program" none.pgm
verdict 'a missing file' 2 'none.pgm: cannot be opened: ' ''
bring=kind_P5
in_folder sh -c 'chmod 000 kind_P5 && "$0" kind_P5' "$program"
if [ "$(id -u)" = 0 ]; then
  skip 'a file that may not be read' 'root may read all'
else
  verdict 'a file that may not be read' 2 'kind_P5: cannot be opened: ' \
    './kind_P5 '
fi

# Streams: pipes by name and as standard input, short, and without an end.
want=$WORK/files/P1_comments.want
threshold=$(awk -F "$tab" '$1 == "P1_comments" { print $4 }' files.list)
from_stdin() {
  in_folder sh -c "$1 | \"\$0\" --no-timing --threshold $threshold -o edges.pgm /dev/stdin" \
    "$program"
}
bring=P15_trailing_byte
from_stdin 'cat P15_trailing_byte'
verdict 'a pipe' 0 'left over && result: pass' \
  './P15_trailing_byte ./edges.pgm ' "$(same "$here/edges.pgm" "$want")"
bring=P14_one_byte_short
from_stdin 'cat P14_one_byte_short'
verdict 'a pipe that ends early' 2 'needs 6 bytes, the file has 5' \
  './P14_one_byte_short '
bring=P19_plain
in_folder sh -c 'mkfifo pipe; cat P19_plain >pipe &
  "$0" --no-timing --threshold '"$threshold"' -o edges.pgm pipe' "$program"
verdict 'a pipe with a name, plain' 0 'result: pass' \
  './P19_plain ./edges.pgm ./pipe ' "$(same "$here/edges.pgm" "$want")"
bring=
from_stdin "perl -e 'print \"P5 \"; print \"# no end\\n\" while 1'"
verdict 'comments without end' 2 'width is missing: 1 MiB of space and comments' ''
from_stdin "perl -e 'print \"P5 3 2 255#\"; print \"no end\" while 1'"
verdict 'a comment after maxval without end' 2 'header ends early' ''
from_stdin "perl -e 'print \"P2 3 2 255 1 2 \"; print \" \" x 99 while 1'"
verdict 'blanks without end' 2 'row 0, col 2 is missing: 1 MiB of space' ''
from_stdin "perl -e 'print \"P5 \"; print 9 while 1'"
verdict 'digits without end' 2 'width is "9999999999999999999..."' ''
from_stdin "perl -e 'print \"P5 99999999 99999999 255 \", \"x\" x 999999'"
verdict 'a huge header on a pipe' 2 \
  'needs 9999999800000001 bytes, the file has 999999' ''

# The output: its name, and whole or not at all.
bring=kind_P5
in_folder "$program" --no-timing kind_P5
verdict 'the name of the output' 0 'kind_P5_edges.pgm: && result: pass' \
  './kind_P5 ./kind_P5_edges.pgm '
threshold=$(awk -F "$tab" '$1 == "kind_P5" { print $4 }' files.list)
want=$WORK/files/kind_P5.want
# output NAME_OF_OUTPUT [BEFORE [AFTER]]: the program between two commands; its
# exit code is that of the program.
output() {
  in_folder sh -c "${2:-:}"'
    "$0" --no-timing --threshold '"$threshold"' -o "$1" kind_P5
    code=$?
    '"${3:-:}"'
    exit $code' "$program" "$1"
}
output none/edges.pgm
verdict 'an output in no folder' 2 'none/edges.pgm: cannot be written: ' \
  './kind_P5 '
output old 'mkdir old'
verdict 'an output that is a folder' 2 'old: cannot be written: ' \
  './kind_P5 ./old '
output edges.pgm 'echo old >edges.pgm; chmod 600 edges.pgm; echo kept >day20_0.part' \
  'ls -l edges.pgm; cat day20_0.part'
verdict 'an output that was there keeps its rights' 0 '-rw------- && kept' \
  './day20_0.part ./edges.pgm ./kind_P5 ' "$(same "$here/edges.pgm" "$want")"
output link 'mkdir other; ln -s other/edges.pgm link2; ln -s link2 link' 'ls -l'
verdict 'an output that is a link' 0 'link -> link2 && link2 -> other/edges.pgm' \
  './kind_P5 ./link ./link2 ./other ./other/edges.pgm ' \
  "$(same "$here/other/edges.pgm" "$want")"
output edges.pgm 'echo old >edges.pgm; chmod 400 edges.pgm' 'cat edges.pgm'
if [ "$(id -u)" = 0 ]; then
  skip 'an output that may not be written' 'root may write all'
else
  verdict 'an output that may not be written' 2 'edges.pgm: cannot be written && old' \
    './edges.pgm ./kind_P5 '
fi
output /dev/null : 'ls -l /dev/null'
verdict 'an output to /dev/null, which stays what it is' 0 'result: pass && crw' \
  './kind_P5 '
output pipe 'mkfifo pipe; cat pipe >got &' wait
verdict 'an output into a pipe' 0 'result: pass' './got ./kind_P5 ./pipe ' \
  "$(same "$here/got" "$want")"
in_folder sh -c '"$0" --no-timing --threshold '"$threshold"' -o /dev/stdout kind_P5 >got
  perl -0777 -ne "BEGIN { \$want = <> } print q(whole) if index(\$_, \$want) >= 0" "$1" got
  ' "$program" "$want"
verdict 'an output to standard output' 0 'whole' './got ./kind_P5 '
if [ -c /dev/full ]; then
  output /dev/full
  verdict 'an output to a full disk' 2 '/dev/full: cannot be written: No space' \
    './kind_P5 '
  in_folder sh -c '"$0" --no-timing -o /dev/stdout kind_P5 >/dev/full' "$program"
  verdict 'standard output to a full disk' 2 '/dev/stdout: cannot be written: No' \
    './kind_P5 '
else
  skip 'an output to a full disk' 'there is no /dev/full'
fi
bring=
in_folder sh -c '
  trap "" XFSZ
  perl -e "print q(P5 200 200 255 ), q(x) x 40000" >big.pgm
  echo old >edges.pgm
  ulimit -f 16
  "$0" --no-timing -o edges.pgm big.pgm
  code=$?
  cat edges.pgm
  exit $code' "$program"
verdict 'an output that does not fit leaves the old one' 2 \
  'edges.pgm: cannot be written: && old && !result: pass' './big.pgm ./edges.pgm '

# Options.
bring=kind_P5
in_folder "$program" --frob kind_P5
verdict 'an unknown option' 2 '--frob && usage' './kind_P5 '
in_folder "$program" kind_P5 -o
verdict 'an option without its value' 2 '-o && usage' './kind_P5 '
for value in x 0.3x -1 nan ''; do
  in_folder "$program" --threshold "$value" kind_P5
  verdict "a threshold of \"$value\"" 2 '--threshold && usage' './kind_P5 '
done
in_folder "$program" kind_P5 kind_P5
verdict 'two pictures' 2 'usage' './kind_P5 '
