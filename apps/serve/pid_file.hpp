#pragma once

#include <sys/types.h>

#include <string>

namespace espalier::app::serving {

/// The file with a server's process id. It is locked as long as the server runs, which a process id alone cannot show: the
/// number of a server that was killed may be that of any program now. The lock outlives a fork.
class pid_file {
 public:
  /// An empty path: there is no file. Throws usage_error if the file is locked, is no file, or cannot be made.
  explicit pid_file(const std::string& path);
  pid_file(const pid_file&) = delete;
  pid_file& operator=(const pid_file&) = delete;
  /// In the process that wrote it, removes the file if it is still that one. Where the system refuses, it becomes empty.
  ~pid_file();

  /// The file appears whole, with this process's id. Throws usage_error.
  void write();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[noreturn]] void refuse_running(int descriptor) const;
  void remove_temporary() noexcept;

  std::string path_;  // absolute
  std::string temporary_;
  int before_ = -1;  // the file that this one replaces, locked
  int descriptor_ = -1;
  pid_t writer_ = 0;
};

}  // namespace espalier::app::serving
