#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>

#include "libsim/units/ids.hpp"

namespace stagecraft {

/// A file in a folder that all machines of a job share, through which rank 0 passes bytes to the
/// other ranks. Rank 0 removes it when the object is destroyed.
class IdFile {
 public:
  IdFile(std::filesystem::path path, RankId rank);
  ~IdFile();
  IdFile(IdFile const&) = delete;
  IdFile(IdFile&&) = delete;
  IdFile& operator=(IdFile const&) = delete;
  IdFile& operator=(IdFile&&) = delete;

  /// On rank 0 writes the bytes; on other ranks waits for the file and reads them.
  /// \throws CommunicationError  on rank 0 if the file cannot be written or exists (another job has
  ///         it, or one that was killed left it); on other ranks if it does not appear in time.
  void share(std::span<std::byte> bytes, std::chrono::seconds timeout);

 private:
  void write(std::span<std::byte const> bytes);
  bool read(std::span<std::byte> bytes) const;

  std::filesystem::path path_;
  RankId rank_;
  bool is_written_ = false;
};

}  // namespace stagecraft
