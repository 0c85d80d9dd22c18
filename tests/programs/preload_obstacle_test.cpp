#include "espalier/programs/preload_obstacle.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace espalier::programs {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct programs_preload_obstacle : ::testing::Test {
  programs_preload_obstacle() {
    std::string pattern = (fs::temp_directory_path() / "espalier-obstacle.XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~programs_preload_obstacle() override { fs::remove_all(folder); }

  fs::path make(const std::string& name, const std::string& content, mode_t mode = 0755) const {
    std::ofstream(folder / name) << content;
    chmod((folder / name).c_str(), mode);
    return folder / name;
  }

  /// The headers of a program for a machine, with segments of these kinds.
  static std::string program(unsigned machine, const std::vector<unsigned>& segments) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = static_cast<Elf64_Half>(machine);
    header.e_phoff = sizeof header;
    header.e_phnum = static_cast<Elf64_Half>(segments.size());
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    for (const unsigned kind : segments) {
      Elf64_Phdr segment{};
      segment.p_type = kind;
      bytes.append(reinterpret_cast<const char*>(&segment), sizeof segment);
    }
    return bytes;
  }

  static std::string of(const fs::path& file) { return preload_obstacle(file).value_or("none"); }

  fs::path folder;
};

TEST_F(programs_preload_obstacle, is_none_for_ordinary_programs) {
  EXPECT_EQ(of("/bin/sh"), "none");
  EXPECT_EQ(of("sh"), "none") << "as in PATH";
  EXPECT_EQ(of("/proc/self/exe"), "none");
  EXPECT_EQ(of(make("program", program(EM_X86_64, {PT_LOAD, PT_INTERP}))), "none");
}

TEST_F(programs_preload_obstacle, is_that_there_is_no_such_program) {
  EXPECT_THAT(of("no-such-program"), AllOf(HasSubstr("no-such-program"), HasSubstr("PATH")));
  EXPECT_THAT(of(folder / "none"), HasSubstr("there is no program"));
  EXPECT_THAT(of(folder), HasSubstr("no file that may be executed"));
  EXPECT_THAT(of(make("data", "text", 0644)), HasSubstr("no file that may be executed"));
  EXPECT_THAT(of(make("text", "neither\n")), HasSubstr("neither a program nor a script"));
  EXPECT_THAT(of(make("empty", "")), HasSubstr("neither a program nor a script"));
}

TEST_F(programs_preload_obstacle, is_static_linking) {
  EXPECT_THAT(of(make("static", program(EM_X86_64, {PT_LOAD, PT_NOTE}))), HasSubstr("linked statically"));
  EXPECT_THAT(of(make("short", program(EM_X86_64, {PT_LOAD, PT_INTERP}).substr(0, 100))),
              HasSubstr("linked statically"))
      << "cut short in its headers";
}

TEST_F(programs_preload_obstacle, is_another_architecture) {
  EXPECT_THAT(of(make("arm", program(EM_AARCH64, {PT_INTERP}))), HasSubstr("another architecture"));
  std::string narrow = program(EM_386, {PT_INTERP});
  narrow[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(of(make("narrow", narrow)), HasSubstr("another architecture"));
  EXPECT_THAT(of(make("cut", program(EM_X86_64, {}).substr(0, 30))), HasSubstr("another architecture"));
}

TEST_F(programs_preload_obstacle, is_the_rights_of_another_user) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const fs::path file = make("setuid", program(EM_X86_64, {PT_INTERP}));
  ASSERT_EQ(chown(file.c_str(), 12345, 12345), 0);
  chmod(file.c_str(), 04755);
  EXPECT_THAT(of(file), HasSubstr("more rights"));
  chmod(file.c_str(), 02755);
  EXPECT_THAT(of(file), HasSubstr("more rights"));
  chmod(file.c_str(), 0755);
  EXPECT_EQ(of(file), "none");
}

TEST_F(programs_preload_obstacle, of_a_script_is_that_of_its_interpreter) {
  const fs::path interpreter = make("static", program(EM_X86_64, {PT_LOAD}));
  EXPECT_EQ(of(make("script", "#! /bin/sh -e\nexit\n")), "none");
  EXPECT_THAT(of(make("for_static", "#!" + interpreter.string() + " word\n")),
              HasSubstr("linked statically"));
  EXPECT_THAT(of(make("for_none", "#!/no/such/interpreter\n")),
              AllOf(HasSubstr("for_none"), HasSubstr("/no/such/interpreter")));
  const fs::path itself = folder / "itself";
  EXPECT_THAT(of(make("itself", "#!" + itself.string() + "\n")), HasSubstr("neither a program nor a script"));
}

}  // namespace
}  // namespace espalier::programs
