#include "libexec/comm/meeting_file.hpp"

#include <cctype>
#include <fstream>

#include "libexec/comm/communication_error.hpp"
#include "libexec/comm/tcp_socket.hpp"

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

std::string name_of(ProcessPlace const& place) {
  std::string name = "stagecraft-" + std::to_string(place.size);
  if (!place.job.empty()) name += "-" + place.job;
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '.') letter = '-';
  }
  return name + ".rank0";
}

}  // namespace

MeetingFile::MeetingFile(ProcessPlace const& place)
    : folder_{place.meeting_folder}, path_{folder_ / name_of(place)} {}

void MeetingFile::write(int port, std::uint64_t nonce) const {
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  fs::path const partial = path_.string() + "." + std::to_string(nonce);
  {
    std::ofstream file{partial};
    file << port << ' ' << nonce << '\n' << host_name() << '\n';
    for (std::string const& address : host_addresses()) file << address << '\n';
    file.close();
    if (!file) throw CommunicationError{"could not write '" + partial.string() + "'"};
  }
  std::error_code error;
  fs::rename(partial, path_, error);
  if (error) {
    throw CommunicationError{"could not write '" + path_.string() + "': " + error.message()};
  }
}

void MeetingFile::remove() const {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

std::optional<MeetingFile::Contents> MeetingFile::read() const {
  std::ifstream file{path_};
  Contents contents;
  if (!(file >> contents.port >> contents.nonce)) return std::nullopt;
  for (std::string host; file >> host;) contents.hosts.push_back(host);
  // Of a container, a machine's name may be known to nobody else.
  if (!contents.hosts.empty() && contents.hosts.front() == host_name()) {
    contents.hosts.insert(contents.hosts.begin(), "127.0.0.1");
  }
  return contents;
}

}  // namespace stagecraft
