#include "apps/stagecraft/import_command.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>

#include "apps/stagecraft/command_line.hpp"
#include "libsim/import/huggingface_import.hpp"
#include "libsim/import/ignore_list.hpp"
#include "libsim/import/launch_script.hpp"
#include "libsim/import/megatron_import.hpp"
#include "libsim/import/text_file.hpp"
#include "libsim/model/model_words.hpp"
#include "libsim/run/paper_config_folder.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/trace/output_file.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr char const* introduction =
    "usage: stagecraft import huggingface config.json [options]\n"
    "       stagecraft import megatron [options] [-- FLAGS...]\n\n"
    "Makes a model file of a Hugging Face config.json, or a run file of Megatron-LM's flags. What "
    "cannot\n"
    "be represented is an error unless --ignore names it; what is approximated, assumed or has no\n"
    "effect is listed on standard error.\n"
    "\nstagecraft import huggingface --help and stagecraft import megatron --help say more.\n"
    "\nexamples:\n";

constexpr char const* huggingface_introduction =
    "usage: stagecraft import huggingface config.json [options]\n\n"
    "Makes a model file of the config.json of a model of Hugging Face's transformers.\n\n";

constexpr char const* huggingface_examples =
    "  stagecraft import huggingface Llama-3.1-8B/config.json --sequence 8192 -o llama3.yaml\n"
    "  stagecraft import huggingface Mistral-7B-v0.1/config.json --ignore sliding_window\n";

constexpr char const* megatron_introduction =
    "usage: stagecraft import megatron [options] [-- FLAGS...]\n\n"
    "Makes a run file of the flags of Megatron-LM's pretrain_gpt.py: those after --, or those of a "
    "launch\n"
    "script, or both (the ones after -- win). Words before a program that ends in .py belong to "
    "the\n"
    "launcher, which says how many ranks there are.\n\n";

constexpr char const* megatron_examples =
    "  stagecraft import megatron --script examples/gpt3/train_gpt3_175b_distributed.sh \\\n"
    "      --world-size 128 --system configs/systems/selene-a100.yaml -o gpt3.yaml\n"
    "  stagecraft import megatron --world-size 8 -- --num-layers 24 --hidden-size 1024 \\\n"
    "      --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 \\\n"
    "      --micro-batch-size 4 --global-batch-size 16 --fp16 --tensor-model-parallel-size 2\n";

void add_output_options(po::options_description& options) {
  auto add = options.add_options();
  add("output,o", po::value<std::string>()->value_name("FILE"),
      "write there instead of standard output");
  add("ignore", po::value<std::vector<std::string>>()->composing()->value_name("NAME[,NAME]"),
      "leave out what these keys or flags stand for, although it matters");
  add("help,h", "print this");
}

std::vector<std::string> ignored_names(po::variables_map const& values) {
  std::vector<std::string> names;
  if (values.count("ignore") == 0) return names;
  for (std::string const& list : values["ignore"].as<std::vector<std::string>>()) {
    for (std::string& name : split_list(list)) names.push_back(std::move(name));
  }
  return names;
}

/// A word of an enumeration.
template <typename Enum>
Enum word_option(std::string const& option, std::string const& word) {
  auto const value = parse_word<Enum>(word);
  if (!value) {
    throw CommandLineError{option + ": found '" + word + "'; accepted: " + accepted_words<Enum>()};
  }
  return *value;
}

void print_notes(std::vector<std::string> const& notes) {
  for (std::string const& note : notes) std::cerr << "note: " << note << '\n';
}

void write_result(po::variables_map const& values, std::string const& text) {
  if (values.count("output") > 0) {
    write_output(values["output"].as<std::string>(), text);
  } else {
    std::cout << text;
  }
}

int import_huggingface_command(std::vector<std::string> const& arguments) {
  po::options_description options{"options"};
  auto add = options.add_options();
  add("sequence,s", po::value<std::string>()->value_name("N"),
      "tokens of a training sequence; default: the longest that the file names");
  add("attention", po::value<std::string>()->value_name(choice_of<Attention>()),
      "flash (default) or unfused, which the file does not say");
  add("precision", po::value<std::string>()->value_name(choice_of<Precision>()),
      "fp16, bf16, fp32 or fp64; default: the file's torch_dtype");
  add_output_options(options);
  std::vector<std::string> files;
  po::variables_map const values = parse_options(arguments, options, files, "config.json");
  if (values.count("help") > 0) {
    std::cout << huggingface_introduction << options << "\nexamples:\n" << huggingface_examples;
    return 0;
  }
  if (files.size() != 1) {
    throw CommandLineError{"FILE: found " + std::to_string(files.size()) +
                           " files; accepted: one config.json"};
  }
  if (values.count("output") > 0) {
    refuse_input("--output (-o)", values["output"].as<std::string>(), {files.front()});
  }
  HuggingfaceOptions wanted{.ignore = ignored_names(values)};
  if (values.count("sequence") > 0) {
    wanted.sequence =
        whole_number("--sequence (-s)", values["sequence"].as<std::string>(), 1, 1 << 24);
  }
  if (values.count("attention") > 0) {
    wanted.attention = word_option<Attention>("--attention", values["attention"].as<std::string>());
  }
  if (values.count("precision") > 0) {
    wanted.precision = word_option<Precision>("--precision", values["precision"].as<std::string>());
  }
  HuggingfaceImport const import = import_huggingface(files.front(), wanted);
  print_notes(import.notes);
  write_result(values, to_model_file(import, files.front()));
  return 0;
}

/// NAME=VALUE pairs.
std::map<std::string, std::string> variables_of(po::variables_map const& values) {
  std::map<std::string, std::string> variables;
  if (values.count("variable") == 0) return variables;
  for (std::string const& text : values["variable"].as<std::vector<std::string>>()) {
    std::size_t const equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw CommandLineError{"--variable: found '" + text + "'; accepted: NAME=VALUE"};
    }
    variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

/// The system file, by a name that leads there from any folder.
std::string system_path(po::variables_map const& values, std::vector<std::string>& notes) {
  std::filesystem::path path;
  if (values.count("system") > 0) {
    path = values["system"].as<std::string>();
  } else {
    path = paper_config_folder().parent_path() / "systems" / "selene-a100.yaml";
    notes.push_back("no --system: the paper's, " + path.lexically_normal().string());
  }
  return std::filesystem::absolute(path).lexically_normal().string();
}

MegatronOptions megatron_options(po::variables_map const& values) {
  MegatronOptions wanted;
  wanted.ignore = ignored_names(values);
  if (values.count("world-size") > 0) {
    wanted.world_size = whole_number("--world-size", values["world-size"].as<std::string>(), 1,
                                     std::numeric_limits<int>::max());
  }
  if (values.count("megatron") > 0) {
    std::string const word = values["megatron"].as<std::string>();
    if (word != "2022" && word != "current") {
      throw CommandLineError{"--megatron: found '" + word + "'; accepted: 2022, current"};
    }
    wanted.version = word == "2022" ? MegatronVersion::of_2022 : MegatronVersion::current;
  }
  return wanted;
}

/// The launch command of the script, if one is named, with the flags of the command line after it.
LaunchCommand launch_of(po::variables_map const& values, std::vector<ShellWord> const& flags) {
  LaunchCommand launch = split_launch(flags);
  if (values.count("script") == 0) return launch;
  std::string const file = values["script"].as<std::string>();
  Diagnostics diagnostics;
  LaunchCommand script = read_launch_script(read_text_file(file, "a launch script"), file,
                                            variables_of(values), diagnostics);
  diagnostics.throw_if_any();
  script.arguments.insert(script.arguments.end(), launch.arguments.begin(), launch.arguments.end());
  if (launch.world_size) script.world_size = launch.world_size;
  return script;
}

int import_megatron_command(std::vector<std::string> const& arguments) {
  po::options_description options{"options"};
  auto add = options.add_options();
  add("script", po::value<std::string>()->value_name("FILE"),
      "a shell script that starts training");
  add("variable", po::value<std::vector<std::string>>()->composing()->value_name("NAME=VALUE"),
      "a variable that the script expects to be set; may be repeated");
  add("system", po::value<std::string>()->value_name("FILE"),
      "the system file that the run names; default: the paper's, Selene");
  add("world-size", po::value<std::string>()->value_name("N"),
      "ranks of the job; default: what the launcher says");
  add("megatron", po::value<std::string>()->value_name("2022|current"),
      "2022 or current: what flags that are left out mean; default: by the flags that are there");
  add_output_options(options);
  auto const separator = std::find(arguments.begin(), arguments.end(), "--");
  po::variables_map const values = parse_options({arguments.begin(), separator}, options);
  if (values.count("help") > 0) {
    std::cout << megatron_introduction << options << "\nexamples:\n" << megatron_examples;
    return 0;
  }
  std::vector<ShellWord> flags;
  for (auto word = separator; word != arguments.end(); ++word) {
    if (word != separator) flags.push_back({*word, 0, 0});
  }
  if (flags.empty() && values.count("script") == 0) {
    throw CommandLineError{
        "found neither --script nor flags; accepted: flags after --, or a script"};
  }
  std::string const origin =
      values.count("script") > 0 ? values["script"].as<std::string>() : "command line";
  LaunchCommand const launch = launch_of(values, flags);
  MegatronOptions wanted = megatron_options(values);
  if (!wanted.world_size) wanted.world_size = launch.world_size;
  MegatronImport import = import_megatron(launch.arguments, origin, wanted);
  import.notes.insert(import.notes.begin(), launch.notes.begin(), launch.notes.end());

  std::string const text = to_run_file(import.config, system_path(values, import.notes), origin);
  // What the system has to say about the run, its peak in the run's precision for one.
  RunConfig const run = parse_run_config(text, "the imported run", {});
  for (std::string const& warning : run.warnings) import.notes.push_back(warning);
  print_notes(import.notes);
  write_result(values, text);
  return 0;
}

}  // namespace

int import_command(std::vector<std::string> const& arguments) {
  std::string const kind = arguments.empty() ? std::string{} : arguments.front();
  if (kind == "--help" || kind == "-h") {
    std::cout << introduction << huggingface_examples << megatron_examples;
    return 0;
  }
  if (kind == option_table_request) throw OptionTable{{}, "", {"huggingface", "megatron"}};
  if (kind == "huggingface")
    return import_huggingface_command({arguments.begin() + 1, arguments.end()});
  if (kind == "megatron") return import_megatron_command({arguments.begin() + 1, arguments.end()});
  throw CommandLineError{"source: found " + (kind.empty() ? "nothing" : "'" + kind + "'") +
                         "; accepted: huggingface, megatron"};
}

}  // namespace stagecraft
