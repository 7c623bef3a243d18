#!/usr/bin/perl
# Makes the Netpbm files that the picture tests read, and says what is right.
# SPDX-License-Identifier: MIT
#
#   perl cases.pl list FOLDER    the files, NAME.want beside each accepted one
#                                (its edges as the program must write them), and
#                                FOLDER.list with a line a file, tabs between:
#                                name, exit code, words, threshold, grey pixels
#   perl cases.pl files FOLDER   the files alone, as a corpus for the fuzzer
#
# The edges are computed here once more, in double precision and from the
# formulas alone, at a threshold that lies far from every magnitude.
use strict;
use warnings;

my ($what, $folder) = @ARGV;
die "usage: cases.pl list|files FOLDER\n"
  unless defined $folder && $what =~ /^(list|files)$/;
mkdir $folder;
my $list;
open $list, '>', "$folder.list" or die "$folder.list: $!\n" if $what eq 'list';

sub spit {
  my ($path, $bytes) = @_;
  open my $file, '>:raw', $path or die "$path: $!\n";
  print $file $bytes;
  close $file or die "$path: $!\n";
}

# The magnitudes of Sobel on the blurred picture, zero outside of both.
sub magnitudes {
  my ($rows, $cols, @grey) = @_;
  my $convolve = sub {
    my ($image, $weight) = @_;
    my $radius = (@$weight - 1) / 2;
    my @out;
    for my $r (0 .. $rows - 1) {
      for my $c (0 .. $cols - 1) {
        my $sum = 0;
        for my $i (-$radius .. $radius) {
          next if $r + $i < 0 || $r + $i >= $rows;
          for my $j (-$radius .. $radius) {
            next if $c + $j < 0 || $c + $j >= $cols;
            $sum += $weight->[$i + $radius][$j + $radius]
              * $image->[($r + $i) * $cols + $c + $j];
          }
        }
        push @out, $sum;
      }
    }
    return \@out;
  };
  my @line = map { $_ / 16 } 1, 4, 6, 4, 1;
  my @gauss = map { my $w = $_; [map { $w * $_ } @line] } @line;
  my $blur = $convolve->(\@grey, \@gauss);
  my $gx = $convolve->($blur, [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]);
  my $gy = $convolve->($blur, [[-1, -2, -1], [0, 0, 0], [1, 2, 1]]);
  return map { sqrt($gx->[$_]**2 + $gy->[$_]**2) } 0 .. $#grey;
}

# A threshold in the widest gap between two magnitudes of the middle half.
sub thresholdFor {
  my @sorted = sort { $a <=> $b } @_;
  return 0.3 if $sorted[-1] - $sorted[0] < 1e-4;
  my ($from, $to) = @sorted > 20 ? (@sorted / 4, @sorted * 3 / 4) : (0, $#sorted);
  my ($gap, $threshold) = (0, 0);
  for my $i (int $from .. int($to) - 1) {
    next if $sorted[$i + 1] - $sorted[$i] <= $gap;
    $gap = $sorted[$i + 1] - $sorted[$i];
    $threshold = ($sorted[$i + 1] + $sorted[$i]) / 2;
  }
  return $threshold;
}

my %seen;

# A file that is read as this picture; the words are what is to be said of it.
sub taken {
  my ($name, $bytes, $words, $rows, $cols, @grey) = @_;
  die "$name: twice\n" if $seen{$name}++;
  die "$name: pixels\n" if @grey != $rows * $cols;
  spit("$folder/$name", $bytes);
  return if $what eq 'files';
  my @magnitude = magnitudes($rows, $cols, @grey);
  my $threshold = sprintf '%.7g', thresholdFor(@magnitude);
  my $edges = join '', map { chr($_ > $threshold ? 255 : 0) } @magnitude;
  spit("$folder/$name.want", "P5\n$cols $rows\n255\n$edges");
  my $said = join ' && ', "$rows rows x $cols cols", $words || (),
    'result: pass';
  print $list join("\t", $name, 0, $said, $threshold,
    join ' ', map { sprintf '%.17g', $_ } @grey), "\n";
}

# A file that is refused with these words.
sub refuse {
  my ($name, $bytes, $words) = @_;
  die "$name: twice\n" if $seen{$name}++;
  spit("$folder/$name", $bytes);
  print $list "$name\t2\t$words\t0.3\t\n" if $what eq 'list';
}

sub bytes { return join '', map { chr } @_ }
sub words16 { return join '', map { pack 'n', $_ } @_ }
sub over { my $maxval = shift; return map { $_ / $maxval } @_ }

# The picture of most cases: 2 rows x 3 columns.
my @six = (10, 20, 30, 40, 50, 60);
my $six = bytes(@six);
my @grey = over(255, @six);
sub same { my ($name, $bytes, $words) = @_; taken($name, $bytes, $words, 2, 3, @grey) }

# Comments and white space.
same('P1_comments', "P5\n# c\n#\n\n3 2\n255\n$six");
same('P2_comments_glued', "P5\n3#w\n2#h\n255\n$six");
same('P3_comment_after_magic', "P5#x\n3 2\n255\n$six");
same('P4_comment_after_maxval', "P5\n3 2\n255# c\n$six");
same('P4_comment_after_maxval_cr', "P5\n3 2\n255# c\r$six");
taken('P4_then_a_pixel_of_35', "P5\n3 2\n255# c\n#" . substr($six, 1), '', 2, 3,
  over(255, 35, @six[1 .. 5]));
taken('P5_no_comment_after_the_separator', "P5\n3 2\n255\n# c\n$six",
  '4 bytes left over', 2, 3, over(255, 35, 32, 99, 10, 10, 20));
for my $first (9, 10, 11, 12, 13, 32, 35) {
  taken("P6_first_pixel_$first", "P5\n3 2\n255\n" . chr($first) . substr($six, 1),
    '', 2, 3, over(255, $first, @six[1 .. 5]));
}
taken('P6_all_pixels_blank', "P5\n3 2\n255\n      ", '', 2, 3, over(255, (32) x 6));
refuse('P7_windows', "P5\r\n3 2\r\n255\r\n$six", 'Windows line ends');
refuse('P7_windows_comment', "P5\r\n3 2\r\n255# c\r\n$six", 'Windows line ends');
refuse('P7_windows_colour', "P6\r\n2 1\r\n255\r\n$six", 'Windows line ends');
refuse('P7_windows_16bit', "P5\r\n3 1\r\n65535\r\n$six", 'Windows line ends');
taken('P7_cr_then_a_pixel_of_10', "P5\r\n3 2\r\n255\r\n" . substr($six, 1), '', 2, 3,
  @grey);
same('P8_cr', "P5\r# c\r3 2\r255\r$six");
same('P9_blanks', "P5 3 2 255 $six");
same('P9_tab', "P5\t3\t2\t255\t$six");
same('P9_vt', "P5\x0b3\x0b2\x0b255\x0b$six");
same('P9_ff', "P5\x0c3\x0c2\x0c255\x0c$six");
same('P25_long_comment', "P5\n#" . 'c' x 5000 . "\n3 2\n255\n$six");
same('leading_zeros', "P5 0003 02 0255 $six");

# maxval.
taken('P10_maxval_15', "P5\n3 2\n15\n" . bytes(0, 3, 7, 11, 14, 15), '', 2, 3,
  over(15, 0, 3, 7, 11, 14, 15));
taken('P10_maxval_1', "P5\n3 2\n1\n" . bytes(0, 1, 0, 1, 1, 0), '', 2, 3,
  0, 1, 0, 1, 1, 0);
taken('P10_maxval_15_plain', "P2\n3 2\n15\n0 3 7 11 14 15\n", '', 2, 3,
  over(15, 0, 3, 7, 11, 14, 15));
refuse('P11_above_maxval', "P5\n3 2\n100\n" . bytes(0, 3, 7, 11, 101, 100),
  'row 1, col 1 is 101, above maxval 100');
refuse('P11_above_maxval_16bit', "P5\n3 2\n1000\n" . words16(0, 3, 7, 11, 1000, 1001),
  'row 1, col 2 is 1001, above maxval 1000');
refuse('P11_above_maxval_colour', "P6\n2 1\n100\n" . bytes(0, 3, 7, 100, 101, 100),
  'row 0, col 1, green is 101, above maxval 100');
my @wide = (1, 256, 30000, 40000, 65534, 65535);
taken('P12_16bit', "P5\n3 2\n65535\n" . words16(@wide), '', 2, 3, over(65535, @wide));
taken('P12_maxval_256', "P5\n3 2\n256\n" . words16(0, 1, 2, 128, 255, 256), '', 2, 3,
  over(256, 0, 1, 2, 128, 255, 256));
refuse('P13_maxval_0', "P5\n3 2\n0\n$six", 'maxval is 0');
refuse('P13_maxval_65536', "P5\n3 2\n65536\n$six", 'maxval is 65536, above 65535');
refuse('P13_maxval_negative', "P5\n3 2\n-255\n$six", 'maxval is "-255", not a whole number');
refuse('P13_maxval_with_a_letter', "P5\n3 2\n255x\n$six", 'maxval is "255x", not a whole number');

# The raster's size.
refuse('P14_one_byte_short', "P5\n3 2\n255\n" . substr($six, 1),
  'needs 6 bytes, the file has 5');
refuse('P14_no_raster', "P5\n3 2\n255\n", 'needs 6 bytes, the file has 0');
refuse('P14_16bit_short', "P5\n3 2\n65535\n$six", 'needs 12 bytes, the file has 6');
refuse('P14_colour_short', "P6\n3 2\n255\n$six", 'needs 18 bytes, the file has 6');
same('P15_trailing_byte', "P5\n3 2\n255\n${six}x", '1 byte left over');
same('P15_second_image', "P5\n3 2\n255\n${six}P5\n3 2\n255\n$six", 'second image is ignored');
same('P15_second_image_plain', "P2\n3 2\n255\n@six\nP2\n3 2\n255\n@six\n",
  'second image is ignored');
same('P15_trailing_text', "P2\n3 2\n255\n@six 70\n", 'text after the raster is ignored');
refuse('P16_width_0', "P5\n0 2\n255\n$six", 'width is 0');
refuse('P16_height_0', "P5\n3 0\n255\n$six", 'height is 0');
refuse('P16_width_negative', "P5\n-3 2\n255\n$six", 'width is "-3", not a whole number');
refuse('P16_height_negative', "P5\n3 -2\n255\n$six", 'height is "-2", not a whole number');
refuse('P17_huge', "P5\n100000 100000\n255\n$six", 'needs 10000000000 bytes, the file has 6');
refuse('P17_huge_colour_16bit', "P6\n100000 100000\n65535\n$six",
  'needs 60000000000 bytes, the file has 6');
refuse('P17_huge_plain', "P2\n100000 100000\n255\n@six\n", 'needs 20000000000 bytes');
refuse('P18_product_overflows', "P5\n4294967296 4294967296\n255\n$six",
  '4294967296 x 4294967296 pixels are more than memory can address');
refuse('P18_overlong', "P5\n18446744073709551619 2\n255\n$six",
  'width is "1844674407370955161..."');
refuse('P18_overlong_height', "P5\n3 18446744073709551618\n255\n$six", 'height is "1844');
refuse('P18_beyond_32_bits', "P5\n4294967299 2\n255\n$six",
  'needs 8589934598 bytes, the file has 6');

# Plain files.
same('P19_plain', "P2\n3 2\n255\n10 20 30\n40 50 60\n");
same('P19_no_final_newline', "P2\n3 2\n255\n10 20 30\n40 50 60");
same('P19_comment_inside', "P2\n3 2\n255\n10 20# 7 8\n 30\n#9\n40 50 60\n# end");
same('P19_cr_lf', "P2\r\n3 2\r\n255\r\n10 20 30\r\n40 50 60\r\n");
same('P19_comment_before', "P2\n3 2\n255# c\n10 20 30\n40 50 60\n");
taken('P19_16bit', "P2\n3 2\n65535\n@wide\n", '', 2, 3, over(65535, @wide));
refuse('P20_above_maxval', "P2\n3 2\n255\n10 300 30\n40 50 60\n",
  'row 0, col 1 is 300, above maxval 255');
refuse('P20_negative', "P2\n3 2\n255\n10 20 30\n-20 50 60\n",
  'row 1, col 0 is "-20", not a whole number');
refuse('P20_fraction', "P2\n3 2\n255\n10 20.5 30\n40 50 60\n",
  'row 0, col 1 is "20.5", not a whole number');
refuse('P20_one_short', "P2\n3 2\n255\n10 20 30\n40 50\n",
  'row 1, col 2 is missing: the raster ends early');
refuse('P20_one_short_digits', "P2\n3 2\n255\n1 2 3 4 5",
  'row 1, col 2 is missing: the raster ends early');
refuse('P20_overlong', "P2\n3 2\n255\n1 99999999999999999999 3\n4 5 6\n",
  'row 0, col 1 is "9999999999999999999..."');
refuse('P20_ends_in_a_comment', "P2\n3 2\n255\n10 20 30\n40 50 # 60",
  'row 1, col 2 is missing');
refuse('P20_colour', "P3\n2 1\n255\n1 2 3 4 5 256\n",
  'row 0, col 1, blue is 256, above maxval 255');

# Colour.
taken('P21_red_blue', "P6\n2 1\n255\n" . bytes(255, 0, 0, 0, 0, 255), '', 1, 2,
  0.299, 0.114);
taken('P21_green_white', "P6\n2 1\n255\n" . bytes(0, 255, 0, 255, 255, 255), '', 1, 2,
  0.587, 1);
taken('P21_16bit', "P6\n2 1\n65535\n" . words16(0, 65535, 0, (65535) x 3), '', 1, 2,
  0.587, 1);
taken('P21_maxval_7', "P6\n2 1\n7\n" . bytes(7, 7, 7, 1, 2, 3), '', 1, 2,
  1, (0.299 + 2 * 0.587 + 3 * 0.114) / 7);
taken('P21_plain', "P3\n2 2\n255\n255 0 0  0 255 0\n0 0 255  255 255 255\n", '', 2, 2,
  0.299, 0.587, 0.114, 1);
taken('P21_plain_16bit', "P3\n1 1\n65535\n65535 65535 65535\n", '', 1, 1, 1);

# Other files.
refuse('P22_P1', "P1\n3 2\n1 0 1 0 1 0\n", 'this kind of Netpbm (P1 && pbmtopgm');
refuse('P22_P4', "P4\n3 2\n\xa0\x40", 'this kind of Netpbm (P4 && pbmtopgm');
refuse('P22_P7', "P7\nWIDTH 3\nHEIGHT 2\nDEPTH 1\nMAXVAL 255\nENDHDR\n$six",
  'this kind of Netpbm (P7 && pamtopnm');
refuse('P22_Pf', "Pf\n3 2\n-1.0\n" . "\0" x 24, 'this kind of Netpbm (Pf && pfmtopam');
refuse('P22_PF', "PF\n3 2\n-1.0\n" . "\0" x 72, 'this kind of Netpbm (PF && pfmtopam');
refuse('P22_P8', "P8\n3 2\n255\n$six", 'not Netpbm, starts 0x50 0x38');
refuse('P22_P_and_zero', "P\0\n3 2\n255\n$six", 'not Netpbm, starts 0x50 0x00');
refuse('P23_empty', '', 'header ends early');
refuse('P23_P', 'P', 'header ends early');
refuse('P23_magic_alone', 'P5', 'width is missing: the header ends early');
refuse('P23_width_alone', "P5\n3", 'height is missing: the header ends early');
refuse('P23_in_a_comment', "P5\n3 2 # 255", 'maxval is missing: the header ends early');
refuse('P23_after_maxval', "P5\n3 2\n255", 'header ends early');
refuse('P23_in_the_last_comment', "P5\n3 2\n255# c", 'header ends early');
refuse('P24_png', "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 'not Netpbm, starts 0x89 0x50 (PNG?)');
refuse('P24_jpeg', "\xff\xd8\xff\xe0\0\x10JFIF", 'not Netpbm, starts 0xFF 0xD8 (JPEG?)');
refuse('P24_mark', "\xef\xbb\xbfP5\n3 2\n255\n$six", 'not Netpbm, starts 0xEF 0xBB');
refuse('P24_utf16', "\xff\xfeP\0005\0\n\0", 'not Netpbm, starts 0xFF 0xFE');
refuse('P24_one_byte', 'A', 'not Netpbm, starts 0x41');
refuse('P24_text', "hello\n", 'not Netpbm, starts 0x68 0x65');

# More than the 1 MiB of comments that the reader takes, digits in their midst.
refuse('long_comments', "P5\n" . "#33333333\n" x 200000 . "3 2\n255\n$six",
  'width is missing: 1 MiB of space and comments') if $what eq 'list';
same('long_comments_allowed', "P5\n" . "#3 2 255\n" x 100000 . "3 2\n255\n$six")
  if $what eq 'list';

# Narrow pictures, and one picture in all kinds of files: same grey, same edges.
taken('size_1x1', "P5 1 1 255 \xff", '', 1, 1, 1);
my @line = map { $_ * $_ % 251 } 1 .. 40;
taken('size_1x40', 'P5 40 1 255 ' . bytes(@line), '', 1, 40, over(255, @line));
taken('size_40x1', 'P5 1 40 255 ' . bytes(@line), '', 40, 1, over(255, @line));
if ($what eq 'list') {
  my ($rows, $cols, $state) = (47, 61, 1);
  my @random = map { $state = ($state * 16807) % 2147483647; $state >> 8 & 255 }
    1 .. $rows * $cols;
  my @three = map { ($_) x 3 } @random;
  my @picture = ($rows, $cols, over(255, @random));
  taken('kind_P5', "P5\n$cols $rows\n255\n" . bytes(@random), '', @picture);
  taken('kind_P2', "P2\n$cols $rows\n255\n@random\n", '', @picture);
  taken('kind_P6', "P6\n$cols $rows\n255\n" . bytes(@three), '', @picture);
  taken('kind_P3', "P3\n$cols $rows\n255\n@three\n", '', @picture);
  taken('kind_P5_16bit', "P5\n$cols $rows\n65535\n" . words16(map { $_ * 257 } @random),
    '', @picture);
  taken('kind_P6_16bit', "P6\n$cols $rows\n65535\n" . words16(map { $_ * 257 } @three),
    '', @picture);
}
