#!/bin/sh
# The repository: its files, their form, and the workflows.
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1

repo_files . >"$WORK/files"

# Each finding is "RULE ;; FILE: why". Spelled so that it does not find itself.
cat >"$WORK/rules.pl" <<'PERL'
use strict;
use warnings;
use JSON::PP;
my %top = map { $_ => 1 }
    qw(convolution.cu README.md evidence exercises solutions);
my @homes = map { "/$_/" } qw(work root home Users);
my $home = join "|", map { quotemeta } @homes;
while (my $file = <STDIN>) {
  chomp $file;
  my $say = sub { print "$_[0] ;; $file: $_[1]\n" };
  my ($first) = split m{/}, $file;
  $say->("top level", "only $_ and dot-files belong there")
    for $top{$first} || $first =~ /^\./ ? () : join ", ", sort keys %top;
  my $size = -s $file;
  $say->("size", "$size bytes, over 400 KiB") if $size > 400 * 1024;
  open my $in, "<", $file or do { $say->("size", $!); next };
  my $text = do { local $/; <$in> } // "";
  my $valid = $text;
  if ($text =~ /\0/ || !utf8::decode($valid)) {
    $say->("text", "binary, or not UTF-8");
    next;
  }
  my $line = sub { 1 + (substr($text, 0, $_[0]) =~ tr/\n//) };
  $say->("line ends", "line " . $line->($-[0]) . " has a CR") if $text =~ /\r/;
  $say->("line ends", "no newline at the end") if $text =~ /[^\n]\z/;
  # Transcripts are kept as they came.
  $say->("white space", "line " . $line->($-[0]) . " ends in it")
    if $text =~ /[ \t]$/m && $file !~ m{^evidence/};
  $say->("white space", "line " . $line->($-[0]) . " has a tab")
    if $text =~ /\t/ && $file !~ m{^evidence/};
  $say->("paths", "line " . $line->($-[0]) . " names $&")
    if $text =~ m{(?:$home)[\w.]+};
  if ($file =~ /\.(?:cuh?|cpp|h|sh|pl|awk|ya?ml)$/ || $text =~ /\A#!/) {
    $say->("license", "no SPDX line in its first 40")
      unless ($text =~ /\A((?:.*\n){0,40})/)[0]
        =~ m{SPDX-License-Identifier: MIT$}m;
  }
  if ($file =~ m{^\.github/workflows/}) {
    $say->("workflows", "its permissions are not contents: read alone")
      unless $text =~ /^permissions:\n  contents: read\n(?! )/m
        && 1 == (() = $text =~ /^\s*permissions:/mg);
    while ($text =~ /uses:\s*(\S+)(.*)/g) {
      $say->("workflows", "$1 is not pinned as NAME\@COMMIT # vN.N.N")
        unless "$1$2" =~ /\@[0-9a-f]{40} # v\d+\.\d+\.\d+$/;
    }
  }
  if ($file =~ /\.ipynb$/) {
    $say->("notebook", "is not JSON") unless eval { decode_json($text) };
    $say->("notebook", "has outputs; strip them")
      if $text =~ /"outputs": \[\s*[^\s\]]/
        || $text =~ /"execution_count": \d/;
  }
}
PERL
rules='top level:size:text:line ends:white space:paths:license:workflows:notebook'

# judge_files PREFIX: a result line a rule, from the findings.
perl "$WORK/rules.pl" <"$WORK/files" >"$WORK/found" 2>&1 ||
  notok "the rules run" "they do not" "$WORK/found"
IFS=:
for rule in $rules; do
  sed -n "s/^$rule ;; //p" "$WORK/found" >"$WORK/mine"
  if [ -s "$WORK/mine" ]; then
    notok "files: $rule" "$(head -n 1 "$WORK/mine")" "$WORK/mine"
  else
    ok "files: $rule"
  fi
done
unset IFS
if [ -s "$WORK/files" ]; then
  ok "files: $(wc -l <"$WORK/files" | tr -d ' ') were looked at"
else
  notok "files" "there are none"
fi

# Each rule must be able to find something.
mkdir -p "$WORK/bad/.github/workflows" "$WORK/bad/exercises"
cd "$WORK/bad" || exit 1
finds() {
  echo "$2" | perl "$WORK/rules.pl" >"$WORK/said" 2>&1
  judge "rules: $2" 0 "$1 ;; && $3" $? "$WORK/said"
}
spdx='// SPDX-License-Identifier: MIT'
echo "$spdx" >extra.cu
finds "top level" extra.cu "belong there"
perl -e 'print "x" x 80, "\n" for 1 .. 5100' >exercises/large.txt
finds size exercises/large.txt "over 400 KiB"
printf 'a\0b\n' >exercises/zero.txt
finds text exercises/zero.txt binary
printf 'caf\351\n' >exercises/latin.txt
finds text exercises/latin.txt "not UTF-8"
printf 'one\ntwo\r\n' >exercises/dos.txt
finds "line ends" exercises/dos.txt "line 2 has a CR"
printf 'one\ntwo' >exercises/end.txt
finds "line ends" exercises/end.txt "no newline"
printf 'one\ntwo \n' >exercises/space.txt
finds "white space" exercises/space.txt "line 2 ends"
printf 'one\n\ttwo\n' >exercises/tab.txt
finds "white space" exercises/tab.txt "line 2 has a tab"
printf 'see /%s/me/file\n' home >exercises/path.txt
finds paths exercises/path.txt "line 1 names"
echo 'int x;' >exercises/none.cu
finds license exercises/none.cu "no SPDX"
printf 'permissions:\n  contents: write\n' >.github/workflows/write.yml
finds workflows .github/workflows/write.yml "contents: read alone"
echo '  - uses: actions/checkout@v4' >.github/workflows/pin.yml
finds workflows .github/workflows/pin.yml "actions/checkout@v4 is not pinned"
echo '{"outputs": [' >exercises/half.ipynb
finds notebook exercises/half.ipynb "is not JSON"
echo '{"outputs": [ {} ]}' >exercises/run.ipynb
finds notebook exercises/run.ipynb "strip them"
cd "$ROOT" || exit 1

# YAML: by actionlint where it is, else any parser.
yaml() { python3 -c 'import sys, yaml; [yaml.safe_load(open(f)) for f in sys.argv[1:]]' "$@"; }
if have python3 && python3 -c 'import yaml' 2>/dev/null; then
  :
elif have ruby; then
  yaml() { ruby -ryaml -e 'ARGV.each { |f| YAML.parse_file(f) }' "$@"; }
else
  yaml() { return 9; }
fi
set -- .github/workflows/*.yml .github/ISSUE_TEMPLATE/*.yml
yaml "$@" >"$WORK/said" 2>&1
case $? in
  0) ok "$# YAML files parse" ;;
  9) skip "YAML" "neither Python with yaml nor Ruby is installed" ;;
  *) notok "YAML" "it does not parse" "$WORK/said" ;;
esac
if ! have actionlint; then
  skip "actionlint" "it is not installed"
elif actionlint .github/workflows/*.yml >"$WORK/said" 2>&1; then
  ok "actionlint"
else
  notok "actionlint" "it found something" "$WORK/said"
fi

if ! in_git rev-parse --git-dir >/dev/null 2>&1; then
  skip "git keeps LF line ends" "this is no git checkout"
elif in_git check-attr eol convolution.cu | grep -q 'eol: lf$'; then
  ok "git keeps LF line ends"
else
  notok "git keeps LF line ends" ".gitattributes does not say so"
fi
[ -x .ci/run ] && ok ".ci/run can be run" || notok ".ci/run can be run" "chmod +x"
if grep -q 'MIT License' .github/LICENSE; then
  ok "the license is there"
else
  notok "the license is there" "no MIT text in .github/LICENSE"
fi
