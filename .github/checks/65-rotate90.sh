#!/bin/sh
# The rotation exercise: its cases, its skeleton, pictures turned, faults
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/../lib.sh"

cd "$ROOT" || exit 1
stand_in=exercises/no-gpu/nvcc
cases=numbers,lines,tiles

# build NAME FILE: as WORK/NAME.
build() {
  # shellcheck disable=SC2086
  expect -t 300 "$2 builds" 0 "!warning" \
    sh "$stand_in" -std=c++17 -O2 -arch=sm_75 $WARNINGS -o "$WORK/$1" "$2"
}
build rotate90 solutions/rotate90.cu || exit 0
build skeleton exercises/rotate90.cu
run=$WORK/rotate90
cd "$WORK" || exit 1

expect -t 100 "every case that takes no GPU" 0 \
  "case published: 2 sizes, the last 462 rows x 1024 cols, 473718 pixels, 13 of 13 rows pass: pass && case large: left out && timing: none && result: pass && !FAIL" \
  "$run"
for order in reverse shuffle:5; do
  expect "threads in order $order" 0 "13 of 13 rows pass && result: pass" \
    env "NOGPU_ORDER=$order" "$run" --cases "$cases"
done
expect "the untouched skeleton fails" 1 \
  "FAIL planar floats, one launch && FAIL interleaved bytes, one launch && FAIL planar bytes, tile, pitch 33 && 6 of 6 pixels never written && nothing was written && 5 of 13 rows pass: FAIL && result: fail && !FAIL copy && !FAIL planar bytes, tile of words" \
  "$WORK/skeleton" --cases "$cases"

# ------------------------------------------------------------ your own picture

# picture FILE HEADER BYTES: the header's \n are line ends, the bytes decimal.
picture() {
  perl -e '
    my ($header, $bytes) = @ARGV;
    $header =~ s/\\n/\n/g;
    binmode STDOUT;
    print $header, pack "C*", split " ", $bytes' "$2" "$3" >"$1"
}
# same NAME FILE OTHER
same() {
  if cmp -s "$2" "$3"; then ok "$1"; else notok "$1" "$2 is not $3"; fi
}
# gone NAME FILE...
gone() {
  gone_name=$1
  shift
  for file; do
    [ ! -e "$file" ] || {
      notok "$gone_name" "$file is there"
      return
    }
  done
  ok "$gone_name"
}

# 3 wide, 2 high: 1 2 3 / 4 5 6 in red, 10 more in green, 20 more in blue.
rgb() { for v; do echo "$v $((v + 10)) $((v + 20))"; done; }
picture a.ppm 'P6\n3 2\n255\n' "$(rgb 1 2 3 4 5 6)"
picture right.ppm 'P6\n2 3\n255\n' "$(rgb 4 1 5 2 6 3)"
picture left.ppm 'P6\n2 3\n255\n' "$(rgb 3 6 2 5 1 4)"
expect "a picture is turned" 0 \
  "a.ppm: 2 rows x 3 cols, RGB, turned clockwise && out.ppm: 3 rows x 2 cols, equal to the CPU reference && result: pass" \
  "$run" a.ppm -o out.ppm
same "4 1 / 5 2 / 6 3, and the header says 2 3" out.ppm right.ppm
expect "a picture is turned left" 0 "turned left && result: pass" \
  "$run" --left a.ppm
same "3 6 / 2 5 / 1 4, named a_turned.ppm" a_turned.ppm left.ppm
picture a.pgm 'P2\n3 2\n9\n1 2 3 4 5 9\n' ''
picture grey.pgm 'P5\n2 3\n255\n' '113 28 142 57 255 85'
expect "a plain grey picture of another maxval" 0 \
  "a.pgm: maxval 9 becomes 255 && grey, turned clockwise" "$run" a.pgm -o out.pgm
same "its samples are scaled" out.pgm grey.pgm
cp a.ppm self.ppm
for turn in 1 2 3 4; do
  "$run" self.ppm -o self.ppm >"$WORK/log" 2>&1 || remark "$WORK/log"
  [ "$turn" != 1 ] || same "the output may be the input" self.ppm right.ppm
done
same "four turns give the picture back" self.ppm a.ppm
# 613 x 5 takes the byte path, 640 x 132 the path of words.
for size in 613x5 640x132; do
  perl -e '
    my ($w, $h) = split /x/, $ARGV[0];
    binmode STDOUT;
    print "P6\n$w $h\n255\n", pack "C*", map { $_ * 37 >> 3 & 255 } 1 .. $w * $h * 3' \
    "$size" >big.ppm
  "$run" big.ppm -o there.ppm >"$WORK/log" 2>&1 &&
    "$run" there.ppm -o back.ppm --left >"$WORK/log" 2>&1
  same "left undoes clockwise, $size" back.ppm big.ppm
done

# What cannot be done leaves nothing behind.
printf 'P6\n3 2\n255\nshort' >short.ppm
expect "a picture cut short" 2 "short.ppm: the raster needs 18 bytes, the file has 5" \
  "$run" short.ppm -o not1.ppm
expect "no such picture" 2 "none.ppm: cannot be opened" "$run" none.ppm -o not2.ppm
expect "no such folder" 2 "no/out.ppm: cannot be written" "$run" a.ppm -o no/out.ppm
# 1 high, 8388481 wide: as rows, one tile of 128 more than a grid can have.
perl -e 'print "P5\n8388481 1\n255\n", "x" x 8388481' >wide.pgm
expect "a picture too wide for the grid" 2 \
  "wide.pgm: 1 rows x 8388481 cols are too many && 65535 blocks in y" \
  "$run" wide.pgm -o not3.pgm
gone "nothing is written then" not1.ppm not2.ppm not3.pgm day20_*
rm -f wide.pgm

# The file that was written is read back: R1, the old width in its header.
sed 's/writeNetpbm(options.output, h_out.data(), size.rows,/writeNetpbm(options.output, h_out.data(), size.cols,/; s/^\( *\)size.cols, file.channels);/\1size.rows, file.channels);/' \
  "$ROOT/exercises/rotate90.h" >header
mkdir -p planted/exercises planted/solutions
cp "$ROOT/convolution.cu" planted/
cp "$ROOT/solutions/rotate90.cu" planted/solutions/
cp header planted/exercises/rotate90.h
if cmp -s header "$ROOT/exercises/rotate90.h"; then
  notok "fault R1 the header keeps the old width" "the edit no longer applies"
elif (cd "$ROOT" && sh "$stand_in" -std=c++17 -O1 -arch=sm_75 \
  -o "$WORK/planted/program" "$WORK/planted/solutions/rotate90.cu") >log 2>&1; then
  expect "fault R1 the header keeps the old width" 1 \
    "FAIL out.ppm, read back, is 2 rows x 3 cols and not the 3 x 2 picture" \
    planted/program a.ppm -o out.ppm
else
  notok "fault R1 the header keeps the old width" "it does not compile" log
fi

# ------------------------------------------------------------ the command line

expect "--help" 0 "usage: && --left && numbers lines tiles published photo large" \
  "$run" --help
expect "--version" 0 "day20 rotate90 1." "$run" --version
expect "an unknown option" 2 "unknown option --right && usage:" "$run" --right
expect "an unknown case" 2 'there is no case "odd"' "$run" --cases tiles,odd
expect "an option without its value" 2 "-o needs a value" "$run" a.ppm -o
expect "--left without a picture" 2 "need an IMAGE" "$run" --left
expect "--cases with a picture" 2 "does not go with an IMAGE" \
  "$run" --cases tiles a.ppm
expect "two pictures" 2 "more than one IMAGE" "$run" a.ppm b.ppm

sh "$ROOT/.github/faults.sh" "$ROOT/.github/faults/rotate90.txt"
