#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>

namespace stagecraft {

/// A file in a folder that all machines of a job share, by which rank 0 hands its bytes to the
/// other ranks. Rank 0 removes it when all of them have come.
class IdFile {
 public:
  IdFile(std::filesystem::path path, int rank);
  ~IdFile();
  IdFile(IdFile const&) = delete;
  IdFile(IdFile&&) = delete;
  IdFile& operator=(IdFile const&) = delete;
  IdFile& operator=(IdFile&&) = delete;

  /// Writes the bytes on rank 0; elsewhere waits for the file and reads them.
  /// \throws CommunicationError  if rank 0 cannot write the file or finds one, which is another
  /// job's or left by one that was killed; elsewhere, if it does not appear in time.
  void share(std::span<std::byte> bytes, std::chrono::seconds timeout);

 private:
  void write(std::span<std::byte const> bytes);
  bool read(std::span<std::byte> bytes) const;

  std::filesystem::path path_;
  int rank_;
  bool is_written_ = false;
};

}  // namespace stagecraft
