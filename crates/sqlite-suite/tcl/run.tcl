# testfixture run.tcl FILE.test: one file of tests, as the quick suites run it. "valgrind" leaves out
# the second round of tests that need another process on the same database (do_multiclient_test).
set ::G(isquick) 1
set ::G(valgrind) 1
set argv0 [lindex $argv 0]
set argv [list --verbose=0]
source $argv0
