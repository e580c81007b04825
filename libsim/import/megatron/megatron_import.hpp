#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libsim/import/megatron/megatron_version.hpp"
#include "libsim/import/omissions.hpp"
#include "libsim/import/shell/launch_script.hpp"
#include "libsim/import/shell/shell_words.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// What a command line does not say.
struct MegatronOptions {
  std::optional<std::int64_t> world_size{};
  /// Whose defaults hold. If not given: of_2022 if there is a flag that newer versions do not have,
  /// else current.
  std::optional<MegatronVersion> version{};
  /// The model of the checkpoint to be trained. Its values hold for flags that are not given.
  std::optional<ModelConfig> model{};
  LaunchEnvironment environment{};
  std::vector<ScriptDoubt> doubts{};  ///< of the script that the words come from
  std::vector<std::string> ignore{};  ///< flags to leave out although they matter
  Strictness strictness = Strictness::lenient;
};

/// A run as Megatron-LM's flags describe it.
struct MegatronImport {
  TrainingConfig config;
  MegatronVersion version = MegatronVersion::current;  ///< whose flags they are
  std::string software{};          ///< the stack that runs them; empty: a run file's default
  std::vector<std::string> notes;  ///< what was assumed, approximated or ignored
  std::vector<Omission> left_out;  ///< in no particular order
};

/// Reads the flags of pretrain_gpt.py since 2020. What a TrainingConfig cannot represent is left out,
/// or a problem if the options are strict; so are another kind of program and what cannot be run.
/// `origin` names the source of the words in messages.
/// \throws ConfigError  with every problem: place, flag, found, accepted.
MegatronImport import_megatron(std::vector<ShellWord> const& words,
                               std::string const& origin,
                               MegatronOptions const& options);

/// The sections of a run file: see to_run_file().
nlohmann::ordered_json run_sections(MegatronImport const& import, std::string const& system);

/// A run file: the sections of the run, the stack of its version, and `system` by the name of its
/// file, with a comment that names `origin`; `remark` is a second one, unless it is empty.
std::string to_run_file(MegatronImport const& import,
                        std::string const& system,
                        std::string const& origin,
                        std::string const& remark = "");

}  // namespace stagecraft
