#include "libsim/run/named_file.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/run/paper_config_folder.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view ending = ".yaml";

/// Whether a text can be a name: neither a path nor the name of a YAML file.
bool may_be_name(std::string const& text) {
  return !text.empty() && text.find('/') == std::string::npos && !text.starts_with('~') &&
         !text.ends_with(ending) && !text.ends_with(".yml");
}

std::filesystem::path folder_of(std::string const& folder) {
  try {
    return config_folder() / folder;
  } catch (std::runtime_error const&) {
    return {};  // a program without its configurations still reads files
  }
}

/// What a text is that is the name of no file of the wanted folders.
std::string kind_of_name(std::string const& text) {
  constexpr std::array<std::pair<char const*, char const*>, 5> uses{
      {{"models", "stagecraft plan takes it, or `model` of a run file names it"},
       {"systems", "stagecraft system takes it, or `system` of a run file names it"},
       {"software", "stagecraft software takes it, or `software` of a run file names it"},
       {"sweeps", "stagecraft sweep takes it"},
       {"paper", "a run: stagecraft simulate takes it"}}};
  for (auto const& [folder, use] : uses) {
    std::error_code ignored;
    if (std::filesystem::exists(folder_of(folder) / (text + std::string{ending}), ignored)) {
      return std::string{"a name of configs/"} + folder + " (" + use + ")";
    }
  }
  return "neither a file nor a name";
}

/// What is wrong with a text that is no file and no name of the folders.
Problem neither_file_nor_name(std::string const& text,
                              std::vector<std::string> const& folders,
                              Place const& referrer,
                              std::string const& key) {
  std::vector<std::string> all;
  std::string accepted = "a YAML file, or a name of ";
  for (std::string const& folder : folders) {
    std::vector<std::string> const names = names_of(folder);
    accepted += (folder == folders.front() ? "configs/" : "; or of configs/") + folder + ": " +
                joined(names);
    all.insert(all.end(), names.begin(), names.end());
  }
  accepted += did_you_mean(text, all);
  Place place = referrer;
  if (!place.origin) place.origin = std::make_shared<std::string const>(text);
  return {place, key, "'" + printable(text) + "', which is " + kind_of_name(text),
          std::move(accepted), true};
}

}  // namespace

std::vector<std::string> const& run_folders() {
  static std::vector<std::string> const folders{"paper", "examples"};
  return folders;
}

std::filesystem::path file_on_command_line(std::filesystem::path const& given,
                                           std::vector<std::string> const& folders) {
  std::string const text = given.string();
  std::error_code ignored;
  if (!may_be_name(text) || std::filesystem::exists(given, ignored)) return given;
  for (std::string const& folder : folders) {
    std::filesystem::path file = named_file(text, folder, {});
    if (std::filesystem::exists(file, ignored)) return file;
  }
  throw ConfigError{{neither_file_nor_name(text, folders, {}, "")}};
}

std::filesystem::path named_file(std::string const& text,
                                 std::string const& folder,
                                 std::filesystem::path const& beside) {
  std::filesystem::path file = beside / text;  // absolute if the text is
  std::error_code ignored;
  if (!may_be_name(text) || std::filesystem::is_regular_file(file, ignored)) return file;
  std::filesystem::path shipped = folder_of(folder) / (text + std::string{ending});
  return std::filesystem::exists(shipped, ignored) ? shipped : file;
}

std::vector<std::string> names_of(std::string const& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (auto const& entry : std::filesystem::directory_iterator{folder_of(folder), ignored}) {
    if (entry.path().extension() == ending) names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

std::optional<YamlNode> parse_named_file(std::string const& text,
                                         std::string const& folder,
                                         std::filesystem::path const& beside,
                                         Place const& referrer,
                                         std::string const& key,
                                         Diagnostics& diagnostics) {
  std::filesystem::path const file = named_file(text, folder, beside);
  std::error_code ignored;
  if (may_be_name(text) && !std::filesystem::exists(file, ignored)) {
    diagnostics.add(neither_file_nor_name(text, {folder}, referrer, key));
    return std::nullopt;
  }
  return parse_yaml_file(file, referrer, key, diagnostics);
}

}  // namespace stagecraft
