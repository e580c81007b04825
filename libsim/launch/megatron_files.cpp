#include "libsim/launch/megatron_files.hpp"

#include <string>
#include <string_view>

#include "libsim/import/megatron/megatron_flags.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {
namespace {

/// What a user sets, each with its default.
std::string settings_text(MegatronVersion version) {
  std::string const data =
      version == MegatronVersion::current
          ? "--mock-data"
          : "--data-path data/text_document --vocab-file data/vocab.json --merge-file "
            "data/merges.txt --split 100,0,0";
  return "MEGATRON=${MEGATRON:-.}  # the folder of Megatron-LM\n"
         "DATA=${DATA:-\"" +
         data +
         "\"}  # or your own\n"
         "STEPS=${STEPS:-\"--train-iters 50 --log-interval 1 --eval-iters 0\"}\n";
}

bool is_fsdp(TrainingConfig const& config) {
  return config.sharding.kind == ShardingKind::megatron_fsdp;
}

/// Megatron-FSDP refuses the one connection that keeps kernels of other runs in order.
std::string environment_text(TrainingConfig const& config) {
  return (is_fsdp(config) ? "" : "export CUDA_DEVICE_MAX_CONNECTIONS=1\n") +
         allocator_line(config.memory);
}

/// The array FLAGS.
std::string flags_array(TrainingConfig const& config, MegatronVersion version) {
  std::string text = "FLAGS=(\n";
  for (FlagWords const& words : flag_words(config, version)) {
    text += "  --" + words.flag;
    for (std::string const& value : words.values) text += " " + shell_word(value);
    text += "\n";
  }
  if (is_fsdp(config)) text += "  --ckpt-format fsdp_dtensor\n";
  return text + ")\n";
}

constexpr std::string_view program = "\"$MEGATRON/pretrain_gpt.py\" \"${FLAGS[@]}\" $DATA $STEPS\n";

/// What both scripts have: settings of the user, environment, flags.
std::string settings_text(LaunchJob const& job, MegatronVersion version) {
  return settings_text(version) + environment_text(job.config) + flags_array(job.config, version);
}

std::string torchrun_script(LaunchJob const& job, MegatronVersion version) {
  JobNodes const nodes = nodes_of(job);
  std::string text = "#!/bin/bash\n" + commented(job.about);
  text += "#\n# Run it on every node";
  text += nodes.nodes == 1 ? ":\n#   MEGATRON=... bash torchrun.sh\n"
                           : ", with NODE_RANK from 0 to " + std::to_string(nodes.nodes - 1) +
                                 ":\n#   MEGATRON=... MASTER_ADDR=first-node NODE_RANK=0 bash "
                                 "torchrun.sh\n";
  text += "set -euo pipefail\n" + settings_text(job, version);
  text += "torchrun --nproc-per-node " + std::to_string(nodes.per_node) + " --nnodes " +
          std::to_string(nodes.nodes);
  text +=
      " --node-rank \"${NODE_RANK:-0}\" \\\n  --master-addr \"${MASTER_ADDR:-localhost}\" "
      "--master-port \"${MASTER_PORT:-29500}\" \\\n  ";
  return text + std::string{program};
}

std::string slurm_script(LaunchJob const& job, MegatronVersion version) {
  JobNodes const nodes = nodes_of(job);
  std::string const per_node = std::to_string(nodes.per_node);
  std::string text = "#!/bin/bash\n#SBATCH --job-name=" + job.name +
                     "\n#SBATCH --nodes=" + std::to_string(nodes.nodes) +
                     "\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=" + per_node +
                     "\n#SBATCH --exclusive\n" + commented(job.about) +
                     "#\n# MEGATRON=... sbatch slurm.sbatch\nset -euo pipefail\n";
  text += settings_text(job, version);
  text += "MASTER=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n";
  text += "srun --kill-on-bad-exit=1 torchrun --nproc-per-node " + per_node + " --nnodes " +
          std::to_string(nodes.nodes) +
          " \\\n  --rdzv-id \"$SLURM_JOB_ID\" --rdzv-backend c10d --rdzv-endpoint "
          "\"$MASTER:29500\" \\\n  ";
  return text + std::string{program};
}

}  // namespace

std::vector<LaunchFile> megatron_files(LaunchJob const& job, MegatronVersion version) {
  return {{"torchrun.sh", torchrun_script(job, version),
           "starts Megatron-LM with torchrun; run it on every node"},
          {"slurm.sbatch", slurm_script(job, version), "the same as a Slurm job"},
          {"flags.txt", megatron_flags(job.config, version) + "\n", "the flags in one line"}};
}

}  // namespace stagecraft
