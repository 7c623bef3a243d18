#!/bin/sh
# What the profiler's counters say of every kernel at 4096 x 4096: the bytes that
# moved at each level beside those of the model, and what kept the kernel busy.
# SPDX-License-Identifier: MIT
#
#   sh evidence/counters.sh PROGRAM FOLDER
#
# PROGRAM is the lesson built with nvcc. Writes FOLDER/counters-raw.csv, which is
# ncu's own, and FOLDER/counters.txt, the table made of it. ncu empties the
# caches before each kernel and runs it several times, once for a few counters.
set -eu

program=$1
folder=$2
metrics=gpu__time_duration.sum,launch__registers_per_thread
metrics=$metrics,sm__sass_data_bytes_mem_global_op_ld.sum
metrics=$metrics,l1tex__t_bytes.sum,lts__t_bytes.sum
metrics=$metrics,dram__bytes_read.sum,dram__bytes_write.sum
metrics=$metrics,smsp__inst_executed.sum
metrics=$metrics,smsp__issue_active.avg.pct_of_peak_sustained_active
metrics=$metrics,sm__warps_active.avg.pct_of_peak_sustained_active
metrics=$metrics,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio
metrics=$metrics,l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
metrics=$metrics,launch__waves_per_multiprocessor

ncu --clock-control none --csv --page raw --print-units base \
  --metrics "$metrics" "$program" --cases perf --no-timing \
  >"$folder/counters-raw.csv" 2>&1

perl - "$folder/counters-raw.csv" >"$folder/counters.txt" <<'PERL'
use strict;
my $pixels = 4096 * 4096;
# Bytes a pixel that a kernel must move, as in the lesson's table.
my %model = (thresholdEdges => 5, sobelThreshold => 5, thresholdWide => 5,
             "sobelRegisters, edges" => 5, pipelineOneKernel => 5);
my (@names, %seen, @rows);
open my $in, "<", $ARGV[0] or die "$ARGV[0]: $!\n";
while (<$in>) {
  next unless /^"/;
  chomp;
  my @cells = map { my $cell = $_; $cell =~ s/,(?=\d{3})//g; $cell }
              /"((?:[^"]|"")*)"/g;
  if (!@names) { @names = @cells; next }
  my %row;
  @row{@names} = @cells;
  next unless $row{"Kernel Name"};
  (my $kernel = $row{"Kernel Name"}) =~ s/^void |[<(].*//g;
  $kernel .= ", edges" if $row{"Kernel Name"} =~ /sobelRegisters.*char/;
  next if $seen{$kernel}++ >= ($kernel eq "blurTiled" ? 2 : 1);
  push @rows, [$kernel, \%row];
}
sub metric {
  my ($row, $name) = @_;
  die "no counter $name\n" unless defined $row->{$name};
  return $row->{$name};
}
print "Every kernel once at 4096 x 4096, caches emptied before it. MB is 10^6 bytes.\n";
print "model: what the kernel must move. loads: 4-byte global loads an output.\n";
print "L1, L2, DRAM: bytes that passed there. inst: instructions a pixel. issue:\n";
print "share of the cycles in which a scheduler issued. warps: of the most that fit.\n";
print "mem: warps that wait for memory, per issue. conflicts:\n";
print "extra passes of shared loads. waves: how often the grid fills the card.\n\n";
printf "%-24s %6s %5s %6s %7s %7s %7s %7s %6s %6s %6s %6s %6s %9s %6s\n",
  "kernel", "us", "regs", "model", "L1", "L2", "DRAM r", "DRAM w", "loads",
  "inst", "issue", "warps", "mem", "conflicts", "waves";
for (@rows) {
  my ($kernel, $row) = @$_;
  my $mb = sub { metric($row, $_[0]) / 1e6 };
  printf "%-24s %6.1f %5d %6.1f %7.1f %7.1f %7.1f %7.1f %6.2f %6.1f %5.0f%% %5.0f%% %6.1f %9d %6.1f\n",
    $kernel, metric($row, "gpu__time_duration.sum") / 1000,
    metric($row, "launch__registers_per_thread"),
    ($model{$kernel} || 8) * $pixels / 1e6, $mb->("l1tex__t_bytes.sum"),
    $mb->("lts__t_bytes.sum"), $mb->("dram__bytes_read.sum"),
    $mb->("dram__bytes_write.sum"),
    metric($row, "sm__sass_data_bytes_mem_global_op_ld.sum") / 4 / $pixels,
    metric($row, "smsp__inst_executed.sum") * 32 / $pixels,
    metric($row, "smsp__issue_active.avg.pct_of_peak_sustained_active"), metric($row, "sm__warps_active.avg.pct_of_peak_sustained_active"),
    metric($row, "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"),
    metric($row, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"),
    metric($row, "launch__waves_per_multiprocessor");
}
PERL
