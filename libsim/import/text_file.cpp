#include "libsim/import/text_file.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "libsim/config/opening.hpp"

namespace stagecraft {

std::string read_text_file(std::filesystem::path const& path, std::string const& what) {
  Place const place{std::make_shared<std::string const>(path.string())};
  auto const refuse = [&](std::string const& found) {
    throw ConfigError{{Problem{place, "", found, what}}};
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse("a folder");
  errno = 0;
  std::ifstream stream{path, std::ios::binary};
  if (!stream) refuse("a file that cannot be opened" + why_not_opened(path, errno));
  std::string text(largest_import + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (stream.bad()) refuse("a file that cannot be read");
  if (text.size() > largest_import) refuse("more than 1 MiB");
  return text;
}

void require_json(std::string_view text, std::string const& origin, Diagnostics& diagnostics) {
  auto const name = std::make_shared<std::string const>(origin);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    diagnostics.add({Place{name}, "", "an empty file", "a JSON object"});
    return;
  }
  try {
    auto const parsed = nlohmann::json::parse(text);
    static_cast<void>(parsed);
  } catch (nlohmann::json::out_of_range const&) {
    diagnostics.add({Place{name}, "", "a number that is too large", "numbers below 1e308"});
  } catch (nlohmann::json::parse_error const& error) {
    std::size_t const byte = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
    std::string_view const before = text.substr(0, byte);
    std::size_t const line_start = before.rfind('\n') + 1;  // 0 if there is none
    auto const line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
    auto const column = static_cast<int>(byte - line_start) + 1;
    bool const is_script = text.starts_with("#!");
    diagnostics.add({Place{name, line, column}, "",
                     is_script ? "a script ('#!')" : "a JSON syntax error",
                     is_script ? "a JSON object; stagecraft import megatron --script makes a run "
                                 "file of a launch script"
                               : "a JSON object"});
  }
}

}  // namespace stagecraft
