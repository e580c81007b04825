#include "apps/program/output_paths.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "apps/program/command_line.hpp"
#include "libsim/hdf5/hdf5_reader.hpp"
#include "libsim/host/schemas.hpp"

namespace stagecraft {

namespace {

/// What messages call a file of a kind, and a file of its format that stagecraft did not write.
struct KindWords {
  char const* name;
  char const* format;
};

KindWords words_of(OutputKind kind) {
  switch (kind) {
    case OutputKind::trace:
      return {"a trace", "an HDF5 file"};
    case OutputKind::sweep:
      return {"a sweep's results", "an HDF5 file"};
    case OutputKind::page:
      return {"a report", "an HTML page"};
    case OutputKind::run:
      return {"a run file", "a YAML file"};
    case OutputKind::model:
      return {"a model file", "a YAML file"};
    case OutputKind::system:
      return {"a system file", "a YAML file"};
    case OutputKind::software:
      return {"a software file", "a YAML file"};
    case OutputKind::json:
      return {"a JSON file", "a JSON file"};
    case OutputKind::csv:
      return {"a table", "a CSV file"};
    case OutputKind::sweep_table:
      return {"a sweep's table", "a CSV file"};
    case OutputKind::gzip:
      return {"a gzip file", "a gzip file"};
    case OutputKind::pickle:
      return {"a pickle", "a pickle"};
  }
  return {"", ""};
}

constexpr std::array yaml_kinds{OutputKind::run, OutputKind::model, OutputKind::system,
                                OutputKind::software};
constexpr std::string_view origin_start = "# Written by stagecraft";

/// What a file is: its format by its first bytes, and its kind if this program wrote it.
struct FoundFile {
  std::string format;
  std::optional<OutputKind> kind;
};

/// The first line that is neither empty nor a comment of YAML.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    std::string_view const line = text.substr(0, text.find('\n'));
    std::size_t const begin = line.find_first_not_of(" \t\r");
    if (begin != std::string_view::npos && line[begin] != '#') return line.substr(begin);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return {};
}

FoundFile found_hdf5(std::filesystem::path const& path) {
  FoundFile found{.format = "an HDF5 file", .kind = {}};
  try {
    Hdf5Group const root = Hdf5File::open(path).root();
    constexpr std::size_t longest = 256;
    std::string const schema = root.has_attribute("schema") ? root.text("schema", longest) : "";
    if (is_version_of(schema, trace_schema)) found.kind = OutputKind::trace;
    if (is_version_of(schema, sweep_schema)) found.kind = OutputKind::sweep;
  } catch (Hdf5Error const&) {
    return found;  // damaged, or of another program
  }
  return found;
}

FoundFile found_yaml(std::string_view text) {
  FoundFile found{.format = "a YAML file", .kind = {}};
  std::string_view const line = text.substr(0, text.find('\n'));
  if (!line.starts_with(origin_start)) return found;
  for (OutputKind const kind : yaml_kinds) {
    if (line.ends_with(std::string{": "} + words_of(kind).name)) found.kind = kind;
  }
  return found;
}

/// Tables are known by the columns with which those of this program begin.
std::optional<OutputKind> kind_of_table(std::string_view line) {
  if (line.starts_with("index,")) return OutputKind::sweep_table;
  for (std::string_view const start : {"rank,stage,start_ps,", "rank,stage,time_ps,",
                                       "model,case,quantity,", "bytes,all_", "bytes,reduce_"}) {
    if (line.starts_with(start)) return OutputKind::csv;
  }
  return std::nullopt;
}

/// What a file is, by its first bytes; nullopt if it has none of these formats.
std::optional<FoundFile> found_at(std::filesystem::path const& path, std::string_view text) {
  if (text.starts_with("\x89HDF")) return found_hdf5(path);
  if (text.starts_with("\x1f\x8b")) return FoundFile{"a gzip file", OutputKind::gzip};
  if (text.starts_with("\x80")) return FoundFile{"a pickle", OutputKind::pickle};
  bool const names_program = text.find("stagecraft") != std::string_view::npos;
  std::string_view const line = first_line(text);
  if (line.starts_with("<!") || line.starts_with("<html")) {
    bool const is_report =
        text.find("<meta name=\"generator\" content=\"stagecraft") != std::string_view::npos;
    return FoundFile{"an HTML page", is_report ? std::optional{OutputKind::page} : std::nullopt};
  }
  if (line.starts_with('{') || line.starts_with('[')) {
    return FoundFile{"a JSON file", names_program ? std::optional{OutputKind::json} : std::nullopt};
  }
  if (auto const kind = kind_of_table(line)) return FoundFile{"a CSV file", kind};
  std::size_t const colon = line.find(':');
  bool const has_key = colon != std::string_view::npos && colon < line.find(',');
  if (has_key || line.starts_with("---") || line.starts_with('%')) return found_yaml(text);
  // A table of one column is a line without a comma.
  bool const is_word = line.find_first_of(" ;$()=/<>") == std::string_view::npos;
  if (!line.empty() && is_word) return FoundFile{"a CSV file", {}};
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

std::string text_of(std::optional<FoundFile> const& found, OutputKind wanted) {
  if (!found) return "a file of another kind";
  if (found->kind) return words_of(*found->kind).name;
  bool const is_same_format = found->format == words_of(wanted).format;
  return found->format + (is_same_format ? " that stagecraft did not write" : "");
}

}  // namespace

std::string origin_line(OutputKind kind, std::string_view command) {
  return std::string{origin_start} + " " + std::string{command} + ": " + words_of(kind).name + "\n";
}

void check_output(std::string const& option,
                  std::filesystem::path const& output,
                  OutputKind kind,
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
  auto const found = found_at(output, {begin.data(), read});
  if (found && found->kind == kind) return;
  throw CommandLineError{option,
                         "'" + output.string() + "', which exists and is " + text_of(found, kind),
                         "a new file, or " + std::string{words_of(kind).name} +
                             " that stagecraft wrote, which is replaced; remove the file if "
                             "nobody needs it"};
}

std::filesystem::path trace_to_write(std::string const& path) {
  check_output("--trace", path, OutputKind::trace);
  return path;
}

}  // namespace stagecraft
