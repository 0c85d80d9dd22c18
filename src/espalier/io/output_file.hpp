#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace espalier::io {

/// Of a file, whatever its name: its device and number. Of one that does not exist yet, those of its folder, and its
/// name there.
using file_identity = std::tuple<dev_t, ino_t, std::string>;

/// Why the kernel makes no file or folder of this name: an error number in words, or that its folder is missing.
[[nodiscard]] std::string why_nothing_is_made(const std::filesystem::path& name, int error);

/// A file that appears whole or not at all. Opening it early shows whether it can be written before hours of
/// measuring are spent. Until commit() its content lies in a nameless or temporary file on the same file system,
/// which disappears with the object. Only files are replaced. A character device or a pipe is written to directly; a
/// link stays and leads to the new file, also if there was none yet.
class output_file {
 public:
  /// The folder must exist. Throws std::invalid_argument, which names the cause and what to do, if the file cannot
  /// be written: the name is that of a folder, a block device or a socket, or the system refuses.
  explicit output_file(std::filesystem::path target);
  /// Writes to a descriptor, which it closes. `name` stands for it in messages.
  output_file(int descriptor, std::string name);
  output_file(output_file&& other) noexcept;
  output_file& operator=(output_file&&) = delete;
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file();

  /// Appends, for content that is not in memory in one piece. Throws std::runtime_error.
  void write(std::string_view content);

  /// Appends the rest, and puts the file in its place. If it throws std::runtime_error, the target is unchanged.
  void commit(std::string_view content = {});

  [[nodiscard]] const std::filesystem::path& target() const noexcept { return target_; }

  /// Two outputs with the same identity would overwrite each other. nullopt for a character device, which takes any
  /// number of outputs.
  [[nodiscard]] std::optional<file_identity> identity() const;

 private:
  [[noreturn]] void refuse(std::string_view why) const;
  void follow_links();
  [[noreturn]] void fail() const;
  void open_named();
  void link_temporary();

  std::filesystem::path target_;
  std::string beside_;     // pattern of a name in the same folder
  std::string temporary_;  // empty while the file has no name
  int descriptor_ = -1;
  bool stream_ = false;  // there is nothing to put in place
};

}  // namespace espalier::io
