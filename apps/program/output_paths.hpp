#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace stagecraft {

/// What --output needs.
inline constexpr char const* file_to_write = "the file to write";

/// What a command writes into a file.
enum class FileKind : std::uint8_t { hdf5, html, gzip, pickle, json, csv, yaml };

/// Refuses a path that must not be written, for all commands alike: a file of another kind (its
/// first bytes say what it is), and a file that the command reads. A file of the same kind is
/// replaced, as is an empty one. Devices and folders are OutputFile's to refuse.
/// \throws CommandLineError  of `option`
void check_output(std::string const& option,
                  std::filesystem::path const& output,
                  FileKind kind,
                  std::vector<std::filesystem::path> const& inputs = {});

/// The value of --trace, checked by check_output().
/// \throws CommandLineError
std::filesystem::path trace_to_write(std::string const& path);

}  // namespace stagecraft
