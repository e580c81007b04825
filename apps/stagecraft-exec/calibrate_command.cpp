#include "apps/stagecraft-exec/calibrate_command.hpp"

#include <iostream>

#include "apps/stagecraft-exec/device_choice.hpp"
#include "apps/stagecraft-exec/system_maker.hpp"
#include "apps/stagecraft/command_line.hpp"
#include "libexec/calibration/nccl_measurement.hpp"
#include "libexec/comm/cuda/nccl_world.hpp"
#include "libsim/config/yaml_text.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/model/model_words.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/trace/output_file.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr char const* introduction =
    "usage: stagecraft-exec calibrate -o SYSTEM.yaml [options]\n\n"
    "Measures this machine's CPU or GPU with the executor's own kernels: matrix products on a\n"
    "grid of shapes, every other kernel at several sizes; on a CPU also collectives between\n"
    "threads. The system file makes `stagecraft simulate` predict what this machine does. What "
    "one\n"
    "GPU cannot measure, links and network, is taken from the system file that --like names.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft-exec calibrate -o here.yaml\n"
    "  stagecraft-exec calibrate -o h200.yaml --backend cuda --like configs/systems/h200.yaml "
    "--precision bf16\n"
    "  stagecraft-exec calibrate -o here.yaml --precision bf16 --precision fp32\n";

po::options_description describe_options() {
  po::options_description options{"options"};
  auto add = options.add_options();
  add("output,o", po::value<std::string>()->value_name("SYSTEM.yaml"), "where to write it");
  add("precision",
      po::value<std::vector<std::string>>()->composing()->value_name(choice_of<Precision>()),
      "fp16, bf16, fp32 (the default) or fp64; may be repeated");
  add("like", po::value<std::string>()->value_name("SYSTEM.yaml"),
      "cuda: a system whose links and network this one has");
  add_device_options(options);
  add("help,h", "print this");
  return options;
}

std::vector<Precision> read_precisions(po::variables_map const& values) {
  if (values.count("precision") == 0) return {Precision::fp32};
  std::vector<Precision> precisions;
  for (std::string const& word : values["precision"].as<std::vector<std::string>>()) {
    auto const precision = parse_word<Precision>(word);
    if (!precision) {
      throw CommandLineError{"--precision: found '" + word +
                             "'; accepted: " + accepted_words<Precision>()};
    }
    precisions.push_back(*precision);
  }
  return precisions;
}

SystemMaker make_system_maker(DeviceChoice const& device, po::variables_map const& values) {
  bool const has_like = values.count("like") > 0;
  if (device.kind == DeviceKind::cpu) {
    if (has_like) throw CommandLineError{"--like: found without a GPU; accepted: with one"};
    return SystemMaker{device};
  }
  std::string const like =
      needed(values, "like", "--like",
             "a system file whose links and network to assume, as configs/systems/h200.yaml");
  return SystemMaker{device, load_system_file(like)};
}

}  // namespace

int calibrate_command(std::vector<std::string> const& arguments) {
  po::options_description const options = describe_options();
  po::variables_map const values = parse_options(arguments, options);
  if (values.count("help") > 0) {
    std::cout << introduction << options << examples;
    return 0;
  }
  std::string const path = needed(values, "output", "--output (-o)", file_to_write);
  std::vector<Precision> const precisions = read_precisions(values);
  OutputFile output{path};
  if (can_measure_nccl()) prepare_nccl();
  SystemMaker maker = make_system_maker(choose_device(values), values);
  maker.measure_communication();
  for (Precision const precision : precisions) maker.measure(precision);
  output.write(yaml_text(to_json(maker.system())));
  output.finish();
  return 0;
}

}  // namespace stagecraft
