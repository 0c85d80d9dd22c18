# Words counted by threads with copies of the data, sorted, matched and packed; then a process of its own. Argument: rounds.
use strict;
use warnings;
use threads;
use Thread::Queue;
use Digest::MD5 qw(md5_hex);
use Storable qw(freeze thaw);

my $rounds = shift;
my %kept = map { ("kept $_" => [1 .. $_ % 40]) } 1 .. 2000;
my $asked = Thread::Queue->new(1 .. $rounds);
$asked->end();

sub work {
    my $results = "";
    while (defined(my $round = $asked->dequeue_nb())) {
        my %count;
        $count{"word " . ($_ * $round % 977)} .= "x" x ($_ % 50) for 1 .. 3000;
        my @sorted = sort { length($count{$a}) <=> length($count{$b}) || $a cmp $b } keys %count;
        my $text = join(",", map { "$_=$count{$_}" } @sorted);
        $text =~ s/(\d+)=(x+)/$2=$1/g;
        my $copy = thaw(freeze([\%count, \%kept]));
        $results .= "$round " . md5_hex($text) . " " . keys(%{$copy->[1]}) . "\n";
    }
    return $results;
}

my @threads = map { threads->create({context => "list"}, \&work) } 1 .. 4;
my %lines = map { (split / /)[0] => $_ } map { split /\n/, $_->join() } @threads;
print "$lines{$_}\n" for sort { $a <=> $b } keys %lines;
$| = 1;
print `echo another process`;
my $child = fork() // die;
exit(7) if $child == 0;
waitpid($child, 0);
exit($? >> 8);
