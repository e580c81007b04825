#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/import/frameworks/framework_keys.hpp"
#include "libsim/import/omissions.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// What a framework's file does not say.
struct FrameworkOptions {
  std::string model{};   ///< a name of configs/models or a path, for the run file; may be empty if
                         ///< the file names the model
  std::string system{};  ///< the same of configs/systems
  std::optional<std::int64_t> world_size{};
  std::optional<std::int64_t> micro_batch{};   ///< sequences of a rank in a microbatch
  std::optional<std::int64_t> accumulation{};  ///< microbatches of an iteration
  std::optional<std::int64_t> sequence{};      ///< tokens; the model's if not given
};

/// A run as a framework's file describes it. What its sections do not have is as a run file has it
/// by default.
struct FrameworkRun {
  nlohmann::ordered_json model = nlohmann::ordered_json::object();  ///< beside `base`
  std::string base{};  ///< the model that the file names; empty: as the options say
  std::string software{};
  nlohmann::ordered_json constants = nlohmann::ordered_json::object();  ///< of the stack
  nlohmann::ordered_json sections = nlohmann::ordered_json::object();   ///< all others
};

/// The model that the run trains.
/// \throws ConfigError  if its file cannot be read.
ModelConfig model_of(FrameworkRun const& run, FrameworkOptions const& options);

/// How a framework writes its file.
enum class FileSyntax : std::uint8_t { yaml, toml };  ///< JSON is YAML

/// A program that trains, whose file an import reads.
struct Framework {
  std::string_view name;   ///< of the import
  std::string_view title;  ///< as people write it
  std::string_view file;   ///< what it calls its file
  FileSyntax syntax = FileSyntax::yaml;
  std::span<UnreadKey const> unread;
  /// Fills the run. Problems go to the diagnostics of the keys.
  void (*read)(FrameworkKeys& keys, FrameworkOptions const& options, FrameworkRun& run);
};

extern Framework const deepspeed_framework;
extern Framework const accelerate_framework;
extern Framework const torchtitan_framework;

/// A run file, and what the user sees beside it.
struct FrameworkImport {
  nlohmann::ordered_json sections = nlohmann::ordered_json::object();  ///< of the run file
  std::string text;                ///< the same with a comment that names the file
  std::vector<std::string> notes;  ///< what was assumed, approximated or ignored
  std::vector<Omission> left_out;  ///< in no particular order
};

/// Reads the text of a framework's file. `settings` are KEY=VALUE with the file's dotted keys, which
/// win over it; `origin` names the file in messages. What a run file cannot say is left out, or a
/// problem if the omissions are strict. The run is not checked as a run.
/// \throws ConfigError  with every problem: place, key, found, accepted.
FrameworkImport import_framework(Framework const& framework,
                                 std::string_view text,
                                 std::string const& origin,
                                 std::vector<std::string> const& settings,
                                 FrameworkOptions const& options,
                                 Omissions& omissions);

}  // namespace stagecraft
