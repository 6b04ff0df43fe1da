# testfixture list.tcl SUITE TEST-FOLDER: the files of one of SQLite's own suites, one on each line.
set suite [lindex $argv 0]
set testdir [lindex $argv 1]
set argv {}
set argv0 $testdir/list.tcl
proc finish_test {} {}
source $testdir/permutations.test
if {![info exists ::testspec($suite)]} {
  puts stderr "no suite $suite; there are: [lsort [array names ::testspec]]"
  exit 2
}
array set spec $::testspec($suite)
foreach f [lsort $spec(-files)] { puts [file tail $f] }
exit 0
