#include "apps/stagecraft/import_command.hpp"

#include <iostream>

#include "apps/stagecraft/command_line.hpp"
#include "libsim/import/huggingface_import.hpp"
#include "libsim/import/ignore_list.hpp"
#include "libsim/import/text_file.hpp"
#include "libsim/model/model_words.hpp"

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
    "\nstagecraft import huggingface --help and stagecraft import megatron --help say more.\n";

constexpr char const* huggingface_introduction =
    "usage: stagecraft import huggingface config.json [options]\n\n"
    "Makes a model file of the config.json of a model of Hugging Face's transformers.\n\n";

constexpr char const* huggingface_examples =
    "\nexamples:\n"
    "  stagecraft import huggingface Llama-3.1-8B/config.json --sequence 8192 -o llama3.yaml\n"
    "  stagecraft import huggingface Mistral-7B-v0.1/config.json --ignore sliding_window\n";

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
    write_text_file(values["output"].as<std::string>(), text);
  } else {
    std::cout << text;
  }
}

int import_huggingface_command(std::vector<std::string> const& arguments) {
  po::options_description options{"options"};
  auto add = options.add_options();
  add("sequence,s", po::value<std::string>()->value_name("N"),
      "tokens of a training sequence; default: the longest that the file names");
  add("attention", po::value<std::string>()->value_name("A"),
      "flash (default) or unfused, which the file does not say");
  add("precision", po::value<std::string>()->value_name("P"),
      "fp16, bf16, fp32 or fp64; default: the file's torch_dtype");
  add_output_options(options);
  std::vector<std::string> files;
  po::variables_map const values = parse_options(arguments, options, files);
  if (values.count("help") > 0) {
    std::cout << huggingface_introduction << options << huggingface_examples;
    return 0;
  }
  if (files.size() != 1) {
    throw CommandLineError{"FILE: found " + std::to_string(files.size()) +
                           " files; accepted: one config.json"};
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

}  // namespace

int import_command(std::vector<std::string> const& arguments) {
  std::string const kind = arguments.empty() ? std::string{} : arguments.front();
  if (kind == "--help" || kind == "-h") {
    std::cout << introduction;
    return 0;
  }
  if (kind == "huggingface")
    return import_huggingface_command({arguments.begin() + 1, arguments.end()});
  throw CommandLineError{"source: found " + (kind.empty() ? "nothing" : "'" + kind + "'") +
                         "; accepted: huggingface, megatron"};
}

}  // namespace stagecraft
