#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/run/config_files.hpp"

namespace {

using stagecraft::RunConfig;

/// Bytes up to the first 0xff are a run file, what follows are overrides, one between two of them:
/// 0xff is in no UTF-8 text, so seeds need no header.
void load_and_print(std::string_view input) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= input.size();) {
    std::size_t const end = std::min(input.find('\xff', from), input.size());
    parts.emplace_back(input.substr(from, end - from));
    from = end + 1;
  }
  std::string const text = parts.front();
  parts.erase(parts.begin());
  std::filesystem::path const origin =
      std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "paper" / "fuzz.yaml";
  RunConfig config;
  try {
    config = stagecraft::parse_run_config(text, origin, parts);
  } catch (stagecraft::ConfigError const&) {
    return;
  }
  // What loads must print, load again without a problem, and be the same.
  std::string const printed = to_yaml(config);
  RunConfig const again = stagecraft::parse_run_config(printed, "/fuzz.yaml", {});
  if (!(again.training == config.training) || !(again.system == config.system) ||
      to_yaml(again) != printed) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  load_and_print(std::string_view{reinterpret_cast<char const*>(data), size});
  return 0;
}
