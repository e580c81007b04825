#pragma once

#include <string>
#include <vector>

#include "libsim/import/megatron/megatron_version.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The flags of a version of Megatron-LM's pretrain_gpt.py for a run, in one line: model,
/// precision, parallelism, schedule, batch, recompute and optimizer. They leave the number of ranks
/// (world_size), data, checkpoints and logging to the launcher.
///
/// import_megatron() with the same version reads them back to the same plan, if megatron_gaps() is
/// empty. It does not know memory.reserve.
/// Pre: problems_of(config) is empty.
std::string megatron_flags(TrainingConfig const& config,
                           MegatronVersion version = MegatronVersion::current);

/// A flag of a command line with its values.
struct FlagWords {
  std::string flag;  ///< without dashes
  std::vector<std::string> values;
};

/// megatron_flags() in words.
std::vector<FlagWords> flag_words(TrainingConfig const& config,
                                  MegatronVersion version = MegatronVersion::current);

/// The flags that say the model: its shape, its vocabulary, which no tokenizer enlarges, and its
/// precision. They are those of the current version.
std::vector<FlagWords> model_flag_words(ModelConfig const& model);

/// Those of the flags that a search decides: layout, schedule, batch, recompute, sharding.
std::string megatron_layout_flags(TrainingConfig const& config,
                                  MegatronVersion version = MegatronVersion::current);

}  // namespace stagecraft
