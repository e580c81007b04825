#include "libexec/comm/id_file.hpp"

#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

IdFile::IdFile(fs::path path, RankId rank) : path_{std::move(path)}, rank_{rank} {}

IdFile::~IdFile() {
  std::error_code ignored;
  if (is_written_) fs::remove(path_, ignored);
}

void IdFile::share(std::span<std::byte> bytes, std::chrono::seconds timeout) {
  if (rank_ == RankId{0}) return write(bytes);
  auto const deadline = std::chrono::steady_clock::now() + timeout;
  while (!read(bytes)) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw CommunicationError{"rank " + std::to_string(rank_.value()) + " waited " +
                               std::to_string(timeout.count()) + " s for rank 0 to write '" +
                               path_.string() + "'"};
    }
    std::this_thread::sleep_for(50ms);
  }
}

/// The file appears as a whole, and only if none exists: creating a link is atomic on network file
/// systems, too.
void IdFile::write(std::span<std::byte const> bytes) {
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  fs::path const partial = path_.string() + ".partial";
  std::ofstream file{partial, std::ios::binary};
  file.write(reinterpret_cast<char const*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw CommunicationError{"could not write '" + partial.string() + "'"};
  fs::create_hard_link(partial, path_, error);
  is_written_ = !error;
  std::error_code ignored;
  fs::remove(partial, ignored);
  if (is_written_) return;
  throw CommunicationError{
      "could not write '" + path_.string() + "': " + error.message() +
      (error == std::errc::file_exists ? "; remove it if no other job is starting there" : "")};
}

bool IdFile::read(std::span<std::byte> bytes) const {
  std::ifstream file{path_, std::ios::binary};
  return static_cast<bool>(
      file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())));
}

}  // namespace stagecraft
