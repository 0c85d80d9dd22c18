# Strings, hashes, symbols and objects that come and go, by threads, fibres and a copy of the process; a heap that is
# compacted. Argument: rounds.
require "digest"
require "json"
require "zlib"

rounds = Integer(ARGV[0])
work = lambda do |number|
  digest = Digest::SHA256.new
  kept = {}
  (1..rounds).each do |i|
    kept["key #{i * number % 500}"] = { "text" => "x" * (i * 37 % 3000), "list" => (1..i % 60).to_a, "name" => "s#{i}".to_sym }
    next unless (i % 50).zero?
    read = JSON.parse(JSON.generate(kept))
    digest << Zlib::Inflate.inflate(Zlib::Deflate.deflate(Marshal.dump(read)))
    kept.delete_if { |_, value| value["list"].size.even? }
  end
  digest.hexdigest
end

puts (1..4).map { |number| Thread.new { work.call(number) } }.map(&:value)
numbers = Enumerator.new { |to| 1.step { |i| to << i * i } }
puts numbers.lazy.select(&:even?).first(500).sum
GC.compact if GC.respond_to?(:compact)
GC.start
reader, writer = IO.pipe
child = fork do
  reader.close
  writer.puts work.call(9)
  writer.close
  exit!(0)
end
writer.close
puts reader.read
Process.wait(child)
$stdout.flush
abort("the end")
