#include <iostream>

#include "apps/program/output_paths.hpp"
#include "apps/stagecraft-exec/commands.hpp"
#include "apps/stagecraft-exec/device_choice.hpp"
#include "apps/stagecraft-exec/system_maker.hpp"
#include "libexec/calibration/nccl_measurement.hpp"
#include "libexec/comm/cuda/nccl_world.hpp"
#include "libsim/config/yaml_text.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft {

namespace {

std::vector<Precision> read_precisions(CommandLine const& line) {
  std::vector<Precision> precisions;
  for (std::string const& word : line.values_of("precision")) {
    precisions.push_back(*value_named<Precision>(word));
  }
  if (precisions.empty()) precisions.push_back(Precision::fp32);
  return precisions;
}

SystemMaker make_system_maker(DeviceChoice const& device, CommandLine const& line) {
  bool const has_like = line.has("like");
  if (device.kind == DeviceKind::cpu) {
    if (has_like) throw CommandLineError{"--like", "without a GPU", "with one"};
    return SystemMaker{device};
  }
  std::string const like = line.needed(
      "like", "a system file whose links and network to assume, as configs/systems/h200.yaml");
  return SystemMaker{device, load_system_file(like)};
}

int run_calibrate(CommandLine const& line) {
  std::string const path = line.needed("output", file_to_write);
  std::vector<Precision> const precisions = read_precisions(line);
  check_output("--output (-o)", path, OutputKind::system, {line.find("like").value_or("")});
  OutputFile output{path};
  if (can_measure_nccl()) prepare_nccl();
  SystemMaker maker = make_system_maker(choose_device(line), line);
  maker.measure_communication();
  for (Precision const precision : precisions) maker.measure(precision);
  output.write(origin_line(OutputKind::system, "calibrate") + yaml_text(to_json(maker.system())));
  output.finish();
  return 0;
}

}  // namespace

Command calibrate_command() {
  return {.name = "calibrate",
          .summary = "measure this machine into a system file with sources",
          .introduction = R"(usage: stagecraft-exec calibrate -o SYSTEM.yaml [options]

Measures this machine's CPU or GPU with the executor's own kernels: matrix products on a
grid of shapes, every other kernel at several sizes; on a CPU also collectives between
threads. The system file makes `stagecraft simulate` predict what this machine does. What one
GPU cannot measure, links and network, is taken from the system file that --like names.
)",
          .examples = R"(  stagecraft-exec calibrate -o here.yaml
  stagecraft-exec calibrate -o h200.yaml --backend cuda --like configs/systems/h200.yaml --precision bf16
  stagecraft-exec calibrate -o here.yaml --precision bf16 --precision fp32
)",
          .options = joined_options(
              {{{.name = "output",
                 .letter = 'o',
                 .value = Value::file("SYSTEM.yaml"),
                 .description = "the system file to write"},
                {.name = "precision",
                 .value = Value::word_of<Precision>(),
                 .may_repeat = true,
                 .description = "fp16, bf16, fp32 (the default) or fp64; may be repeated"},
                {.name = "like",
                 .value = Value::file("SYSTEM.yaml"),
                 .description = "cuda: a system file with the links and network of this machine"}},
               device_options()}),
          .run = run_calibrate};
}

}  // namespace stagecraft
