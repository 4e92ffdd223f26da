#!/usr/bin/perl
# Checks debian/tests/control as autopkgtest reads it: the fields, the restrictions, the dependencies and the scripts.
use strict;
use warnings;

use Dpkg::Control::HashCore;
use Dpkg::Deps;

# README.package-tests.rst of autopkgtest.
my %fields = map { $_ => 1 } qw(Tests Test-Command Restrictions Features Depends Tests-Directory Classes Architecture);
my %restrictions = map { $_ => 1 } qw(rw-build-tree breaks-testbed needs-root build-needed allow-stderr isolation-container
  isolation-machine needs-internet needs-reboot needs-recommends needs-sudo flaky skippable skip-not-installable
  skip-foreign-architecture superficial hint-testsuite-triggers);
my $file = 'debian/tests/control';
open my $in, '<', $file or die "$file: $!\n";
my ($stanzas, @wrong) = (0);
while (1) {
    my $stanza = Dpkg::Control::HashCore->new;
    $stanza->parse($in, $file) or last;
    $stanzas++;
    my $is = "stanza $stanzas";
    push @wrong, map { "$is has the field $_, which autopkgtest does not know" } grep { !$fields{$_} } keys %$stanza;
    push @wrong, "$is needs one of Tests and Test-Command"
      unless defined $stanza->{Tests} xor defined $stanza->{'Test-Command'};
    push @wrong, map { "$is has the restriction $_, which autopkgtest does not know" }
      grep { !$restrictions{$_} } split /[\s,]+/, $stanza->{Restrictions} // '';
    for my $test (split /[\s,]+/, $stanza->{Tests} // '') {
        my $script = ($stanza->{'Tests-Directory'} // 'debian/tests') . "/$test";
        if (!-x $script) { push @wrong, "$is: $script is missing, or is not executable" }
        elsif (system 'sh', '-n', $script) { push @wrong, "$is: the shell does not read $script" }
    }
    # `@` is each binary package of this source.
    (my $depends = $stanza->{Depends} // '@') =~ s/\@/etcd-agent/g;
    push @wrong, "$is: Depends is no list of packages: $stanza->{Depends}" unless defined deps_parse($depends);
}
push @wrong, 'there is no test' unless $stanzas;
die map { "$file: $_\n" } @wrong if @wrong;
print "$stanzas stanzas\n";
