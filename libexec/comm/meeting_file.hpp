#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "libexec/comm/process_environment.hpp"

namespace stagecraft {

/// Where rank 0 of a job is, in a file of the job's own in a folder that all its machines share.
class MeetingFile {
 public:
  explicit MeetingFile(ProcessPlace const& place);

  /// This process, listening at `port`. Appears whole or not at all. \throws CommunicationError
  void write(int port, std::uint64_t nonce) const;
  void remove() const;

  struct Contents {
    int port = 0;
    std::uint64_t nonce = 0;
    std::vector<std::string> hosts;  ///< names and addresses of rank 0's machine
  };
  /// Nothing where there is no such file.
  std::optional<Contents> read() const;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

}  // namespace stagecraft
