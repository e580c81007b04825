#include "libsim/run/named_file.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <system_error>

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

}  // namespace

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
    std::vector<std::string> const names = names_of(folder);
    std::string const meant{nearest_word(text, names)};
    Place place = referrer;
    if (!place.origin) place.origin = std::make_shared<std::string const>(text);
    diagnostics.add({place, key, "'" + printable(text) + "', which is neither a file nor a name",
                     "a YAML file, or a name of configs/" + folder + ": " + joined(names) +
                         (meant.empty() ? "" : "; did you mean '" + meant + "'?"),
                     true});
    return std::nullopt;
  }
  return parse_yaml_file(file, referrer, key, diagnostics);
}

}  // namespace stagecraft
