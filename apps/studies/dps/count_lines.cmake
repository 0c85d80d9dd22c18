# Writes lines_of_code.cpp: how many lines of each file have code. NAMES and FILES are lists of one length, OUTPUT is the file.
# The folder of the study is SOURCE.
set(rows "")
foreach(name file IN ZIP_LISTS NAMES FILES)
  file(STRINGS ${file} lines REGEX "^[ \t]*[^ \t/]")
  list(LENGTH lines count)
  string(APPEND rows "    {\"${name}\", ${count}},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"apps/studies/dps/lines_of_code.hpp\"

#include <map>

namespace espalier::app::dps {

unsigned lines_of_code(const std::string& name) {
  static const std::map<std::string, unsigned> counted{
${rows}  };
  const auto found = counted.find(name);
  return found == counted.end() ? 0 : found->second;
}

}  // namespace espalier::app::dps
")
