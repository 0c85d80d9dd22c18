#include "apps/espalier/timed_program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "apps/common/child.hpp"
#include "apps/espalier/preloaded_program.hpp"

namespace espalier::app {
namespace {

namespace fs = std::filesystem;

/// One statement per row, because statements are what causes allocations; then queries that need memory for results.
std::string statements() {
  std::string sql =
      "create table a(id integer primary key, name text, v real);create table b(aid int, note text);begin;\n";
  constexpr unsigned rows = 30'000;
  for (unsigned i = 0; i < rows; ++i) {
    sql += fmt::format("insert into a values({},'{}{}',{}.25);\n", i, std::string(4 + i * 31 % 57, 'n'), i,
                       i * 7919 % rows);
    if (i % 2 == 0)
      sql += fmt::format("insert into b values({},'{}');\n", i * 7919 % rows,
                         std::string(10 + i * 17 % 290, 'x'));
  }
  return sql +
         "commit;create index an on a(name);create index ba on b(aid);\n"
         "select count(*) from a join b on a.id=b.aid where length(note)>100;\n"
         "update a set name=name||'z' where id%3=0;\n"
         "select max(length(g)) from (select group_concat(note) g from b group by aid%100);\n"
         "delete from a where id%2;\n"
         "select count(*) from (select distinct name||v from a order by 1);\n";
}

constexpr const char* script = R"(
import json
d = {'key%d' % i: [i, str(i) * 3, {'a': i, 'b': [1.5 * i, None]}] for i in range(30000)}
text = json.dumps(d)
e = json.loads(text)
assert e == d
del d
counts = {}
for word in text.split(','):
    counts[word] = counts.get(word, 0) + 1
print(len(sorted(counts, key=lambda w: (counts[w], w))))
for i in range(4):
    e = {k: [str(x) for x in v] + [k * 2] for k, v in e.items()}
print(len(e))
)";

constexpr const char* source = R"(
#include <map>
#include <string>
#include <vector>
std::map<std::string, std::vector<std::string>> index_of(const std::vector<std::string>& words) {
  std::map<std::string, std::vector<std::string>> all;
  for (const std::string& word : words) all[word.substr(0, 1)].push_back(word);
  return all;
}
)";

std::uint64_t nanoseconds(const timeval& time) {
  return (static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(time.tv_usec)) *
         1000;
}

}  // namespace

timed_programs programs_that_allocate() {
  // An absolute path, because a name found in PATH may be a script that starts another program.
  const fs::path folder = "/usr/bin";
  timed_programs all;
  const auto add = [&](timed_program one) {
    std::error_code none;
    if (fs::exists(one.command.front(), none))
      all.found.push_back(std::move(one));
    else
      all.missing.push_back(fmt::format("{} is left out: there is no {}", one.name, one.command.front()));
  };
  add({"sqlite3", {folder / "sqlite3", "-batch", ":memory:"}, statements(), {}});
  // Its own allocator would hide the malloc, and a random order of its sets would change the work.
  add({"python3",
       {folder / "python3", "-I", "-S", "-"},
       script,
       {{"PYTHONMALLOC", "malloc"}, {"PYTHONHASHSEED", "1"}}});
  add({"g++", {folder / "g++", "-std=c++17", "-O1", "-S", "-o", "/dev/null", "-x", "c++", "-"}, source, {}});
  return all;
}

run_cost run_under(const timed_program& program, const fs::path& input, const preloaded_malloc& malloc) {
  variables set = program.set;
  set.insert(set.end(), malloc.set.begin(), malloc.set.end());
  const std::vector<std::string> environment = child_environment(std::move(set), malloc.libraries);

  child_descriptors descriptors;
  descriptors.open(STDIN_FILENO, input, O_RDONLY);
  descriptors.open(STDOUT_FILENO, "/dev/null", O_WRONLY);
  const auto process =
      spawn(program.command, {.descriptors = &descriptors, .environment = &environment, .apart = true});
  if (!process) throw std::runtime_error(fmt::format("{} could not be started", program.command.front()));
  const auto [status, used] = wait_for(*process);
  if (status != 0)
    throw std::runtime_error(
        fmt::format("{} under {} did not end well", program.command.front(), malloc.name));
  return {nanoseconds(used.ru_utime) + nanoseconds(used.ru_stime),
          static_cast<std::uint64_t>(used.ru_maxrss)};
}

}  // namespace espalier::app
