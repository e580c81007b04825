#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libsim/import/megatron/megatron_version.hpp"
#include "libsim/import/shell/shell_words.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// What a command line does not say.
struct MegatronOptions {
  std::optional<std::int64_t> world_size{};
  /// Whose defaults hold. If not given: of_2022 if there is a flag that newer versions do not have,
  /// else current.
  std::optional<MegatronVersion> version{};
  std::vector<std::string> ignore{};  ///< flags to leave out although they matter
};

/// A run as Megatron-LM's flags describe it.
struct MegatronImport {
  TrainingConfig config;
  std::vector<std::string> notes;  ///< what was assumed, approximated, ignored or has no effect
};

/// Reads the flags of pretrain_gpt.py since 2020. What a TrainingConfig cannot represent, and
/// what cannot be run, are problems.
/// `origin` names the source of the words in messages.
/// \throws ConfigError  with every problem: place, flag, found, accepted.
MegatronImport import_megatron(std::vector<ShellWord> const& words,
                               std::string const& origin,
                               MegatronOptions const& options);

/// A run file: the sections of `config`, and `system` by the name of its file, with a comment that
/// names `origin`; `remark` is a second one, unless it is empty.
std::string to_run_file(TrainingConfig const& config,
                        std::string const& system,
                        std::string const& origin,
                        std::string const& remark = "");

}  // namespace stagecraft
