#include "apps/program/output_paths.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "apps/program/command_line.hpp"

namespace stagecraft {

namespace {

char const* name_of(FileKind kind) {
  switch (kind) {
    case FileKind::hdf5:
      return "an HDF5 file";
    case FileKind::html:
      return "an HTML page";
    case FileKind::gzip:
      return "a gzip file";
    case FileKind::pickle:
      return "a pickle";
    case FileKind::json:
      return "a JSON file";
    case FileKind::csv:
      return "a CSV file";
    case FileKind::yaml:
      return "a YAML file";
  }
  return "";
}

/// The first line with content that is no comment of YAML.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    std::string_view const line = text.substr(0, text.find('\n'));
    std::size_t const begin = line.find_first_not_of(" \t\r");
    if (begin != std::string_view::npos && line[begin] != '#') return line.substr(begin);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return {};
}

/// The kind of a file by its first bytes; nullopt for none of these.
std::optional<FileKind> kind_of(std::string_view text) {
  if (text.starts_with("\x89HDF")) return FileKind::hdf5;
  if (text.starts_with("\x1f\x8b")) return FileKind::gzip;
  if (text.starts_with("\x80")) return FileKind::pickle;
  std::string_view const line = first_line(text);
  if (line.starts_with("<!") || line.starts_with("<html")) return FileKind::html;
  if (line.starts_with('{') || line.starts_with('[')) return FileKind::json;
  std::size_t const colon = line.find(':');
  bool const has_key = colon != std::string_view::npos && colon < line.find(',');
  if (has_key || line.starts_with("---") || line.starts_with('%')) return FileKind::yaml;
  // A table of one column is a line without a comma.
  bool const is_word = line.find_first_of(" ;$()=/<>") == std::string_view::npos;
  if (!line.empty() && is_word) return FileKind::csv;
  return std::nullopt;
}

void refuse_input(std::string const& option,
                  std::filesystem::path const& output,
                  std::vector<std::filesystem::path> const& inputs) {
  for (std::filesystem::path const& input : inputs) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(output, input, ignored)) continue;
    throw CommandLineError{option, "'" + output.string() + "', which is read", "another file"};
  }
}

}  // namespace

void check_output(std::string const& option,
                  std::filesystem::path const& output,
                  FileKind kind,
                  std::vector<std::filesystem::path> const& inputs) {
  if (output.empty()) throw CommandLineError{option, "''", std::string{file_to_write}};
  refuse_input(option, output, inputs);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(output, ignored)) return;
  std::ifstream file{output, std::ios::binary};
  std::array<char, 4096> begin{};
  file.read(begin.data(), begin.size());
  auto const read = static_cast<std::size_t>(file.gcount());
  if (read == 0) return;
  auto const found = kind_of({begin.data(), read});
  if (found == kind) return;
  throw CommandLineError{option,
                         "'" + output.string() + "', which exists and is " +
                             (found ? name_of(*found) : "a file of another kind"),
                         std::string{"a new file, or "} + name_of(kind) + " to replace"};
}

std::filesystem::path trace_to_write(std::string const& path) {
  check_output("--trace", path, FileKind::hdf5);
  return path;
}

}  // namespace stagecraft
