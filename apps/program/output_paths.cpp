#include "apps/program/output_paths.hpp"

#include <array>
#include <fstream>
#include <string_view>
#include <system_error>

#include "apps/program/command_line.hpp"

namespace stagecraft {

void refuse_input(std::string const& option,
                  std::filesystem::path const& output,
                  std::vector<std::filesystem::path> const& inputs) {
  for (std::filesystem::path const& input : inputs) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(output, input, ignored)) continue;
    throw CommandLineError{option, "'" + output.string() + "', which is read", "another file"};
  }
}

std::filesystem::path trace_to_write(std::string const& path) {
  constexpr std::string_view signature{"\x89HDF"};
  if (path.empty()) throw CommandLineError{"--trace", "''", std::string{file_to_write}};
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return path;
  std::ifstream file{path, std::ios::binary};
  std::array<char, signature.size()> begin{};
  file.read(begin.data(), begin.size());
  auto const read = static_cast<std::size_t>(file.gcount());
  bool const may_replace = read == 0 || std::string_view{begin.data(), read} == signature;
  if (!may_replace) {
    throw CommandLineError{"--trace", "'" + path + "', which exists and is not a trace",
                           "a new file, or a trace to replace"};
  }
  return path;
}

void refuse_same_file(std::filesystem::path const& output, std::filesystem::path const& trace) {
  std::error_code error;
  if (std::filesystem::equivalent(output, trace, error)) {
    throw CommandLineError{"--output", "'" + output.string() + "', which is the trace itself",
                           "another file"};
  }
}

}  // namespace stagecraft
