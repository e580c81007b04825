#include "libsim/import/megatron/launch_files.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "libsim/import/megatron/megatron_flags.hpp"

namespace stagecraft {
namespace {

/// What a user sets, each with its default.
std::string settings_text(LaunchJob const& job) {
  bool const is_current = job.version == MegatronVersion::current;
  std::string const data =
      is_current ? "--mock-data"
                 : "--data-path data/text_document --vocab-file data/vocab.json --merge-file "
                   "data/merges.txt --split 100,0,0";
  return "MEGATRON=${MEGATRON:-.}  # the folder of Megatron-LM\n"
         "DATA=${DATA:-\"" +
         data +
         "\"}  # or your own\n"
         "STEPS=${STEPS:-\"--train-iters 50 --log-interval 1 --eval-iters 0\"}\n";
}

std::string environment_text(LaunchJob const& job) {
  MemoryConfig const& memory = job.config.memory;
  std::string text = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  if (memory.allocator == AllocatorKind::pytorch && !memory.allocator_settings.empty()) {
    text += "export PYTORCH_CUDA_ALLOC_CONF=" + shell_word(memory.allocator_settings) + "\n";
  }
  return text;
}

/// The array FLAGS.
std::string flags_array(LaunchJob const& job) {
  std::string text = "FLAGS=(\n";
  for (FlagWords const& words : flag_words(job)) {
    text += "  --" + words.flag;
    for (std::string const& value : words.values) text += " " + shell_word(value);
    text += "\n";
  }
  return text + ")\n";
}

constexpr std::string_view program = "\"$MEGATRON/pretrain_gpt.py\" \"${FLAGS[@]}\" $DATA $STEPS\n";

std::string torchrun_script(LaunchJob const& job) {
  JobNodes const nodes = nodes_of(job);
  std::string text = "#!/bin/bash\n" + commented(job.about);
  text += "#\n# Run it on every node";
  text += nodes.nodes == 1 ? ":\n#   MEGATRON=... bash torchrun.sh\n"
                           : ", with NODE_RANK from 0 to " + std::to_string(nodes.nodes - 1) +
                                 ":\n#   MEGATRON=... MASTER_ADDR=first-node NODE_RANK=0 bash "
                                 "torchrun.sh\n";
  text += "set -euo pipefail\n" + settings_text(job) + environment_text(job) + flags_array(job);
  text += "torchrun --nproc-per-node " + std::to_string(nodes.per_node) + " --nnodes " +
          std::to_string(nodes.nodes);
  text +=
      " --node-rank \"${NODE_RANK:-0}\" \\\n  --master-addr \"${MASTER_ADDR:-localhost}\" "
      "--master-port \"${MASTER_PORT:-29500}\" \\\n  ";
  return text + std::string{program};
}

std::string slurm_script(LaunchJob const& job) {
  JobNodes const nodes = nodes_of(job);
  std::string const per_node = std::to_string(nodes.per_node);
  std::string text = "#!/bin/bash\n#SBATCH --job-name=" + job.name +
                     "\n#SBATCH --nodes=" + std::to_string(nodes.nodes) +
                     "\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=" + per_node +
                     "\n#SBATCH --exclusive\n" + commented(job.about) +
                     "#\n# MEGATRON=... sbatch slurm.sbatch\nset -euo pipefail\n";
  text += settings_text(job) + environment_text(job) + flags_array(job);
  text += "MASTER=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n";
  text += "srun --kill-on-bad-exit=1 torchrun --nproc-per-node " + per_node + " --nnodes " +
          std::to_string(nodes.nodes) +
          " \\\n  --rdzv-id \"$SLURM_JOB_ID\" --rdzv-backend c10d --rdzv-endpoint "
          "\"$MASTER:29500\" \\\n  ";
  return text + std::string{program};
}

}  // namespace

std::string commented(std::string const& text) {
  std::istringstream lines{text};
  std::string comment;
  for (std::string line; std::getline(lines, line);) {
    comment += line.empty() ? "#\n" : "# " + line + "\n";
  }
  return comment;
}

JobNodes nodes_of(LaunchJob const& job) {
  int const gpus = world_size(job.config.parallel);
  int per_node = std::min(gpus, std::max(job.node_size, 1));
  while (gpus % per_node != 0) --per_node;
  return {.nodes = gpus / per_node, .per_node = per_node};
}

std::vector<FlagWords> flag_words(LaunchJob const& job) {
  std::istringstream words{megatron_flags(job.config, job.version)};
  std::vector<FlagWords> flags;
  for (std::string word; words >> word;) {
    if (word.starts_with("--")) {
      flags.push_back({word.substr(2), {}});
    } else if (!flags.empty()) {
      flags.back().values.push_back(std::move(word));
    }
  }
  return flags;
}

std::string shell_word(std::string const& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/%@";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (char const letter : text) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

std::vector<LaunchFile> megatron_launch_files(LaunchJob const& job) {
  return {{"torchrun.sh", torchrun_script(job)},
          {"slurm.sbatch", slurm_script(job)},
          {"flags.txt", megatron_flags(job.config, job.version) + "\n"}};
}

}  // namespace stagecraft
