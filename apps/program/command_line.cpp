#include "apps/program/command_line.hpp"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/run/run_keys.hpp"
#include "libsim/units/parse_number.hpp"
#include "libsim/units/quantity.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

[[noreturn]] void refuse(std::string const& shown,
                         std::string const& found,
                         std::string const& accepted) {
  throw CommandLineError{shown, "'" + found + "'", accepted};
}

/// The accepted words, and the one that was probably meant.
std::string accepted_of(std::string const& word, std::vector<std::string> const& accepted) {
  return joined(accepted) + did_you_mean(word, accepted);
}

/// All values are read as text, so that this program words the messages about them.
po::value_semantic* semantic_of(Option const& option) {
  if (option.value.kind == Value::Kind::none) return new po::untyped_value{true};
  if (option.may_repeat) {
    return po::value<std::vector<std::string>>()->composing()->value_name(option.value.name);
  }
  auto* const semantic = po::value<std::string>()->value_name(option.value.name);
  return option.fallback.empty() ? semantic : semantic->default_value(option.fallback);
}

po::options_description description_of(Command const& command) {
  po::options_description description{"options"};
  auto add = description.add_options();
  for (Option const& option : all_options(command)) {
    std::string names = option.name;
    if (option.letter != '\0') names += std::string{","} + option.letter;
    add(names.c_str(), semantic_of(option), option.description.c_str());
  }
  return description;
}

/// Options that users look for under another name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> other_names{
    {{"--energy", "--power"},
     {"--watts", "--power"},
     {"--cost", "--price"},
     {"--batch", "--global-batch"},
     {"--accelerators", "--gpus"},
     {"--compare", "--against"},
     {"--baseline", "--against"}}};

std::string_view section_of(std::string_view key) { return key.substr(0, key.find('.')); }

/// Whether an option is a key of a run file, or looks like one.
bool is_run_key(std::string_view option) {
  std::string_view const section =
      section_of(option.substr(std::min(option.find_first_not_of('-'), option.size())));
  return std::ranges::any_of(
      run_keys(), [&](KeyText const& known) { return section_of(known.key) == section; });
}

/// The options that there are instead of an unknown one, and the one that was probably meant.
std::string accepted_options(std::string const& name, std::vector<std::string> const& spellings) {
  bool const takes_keys = std::ranges::find(spellings, "--set") != spellings.end();
  if (takes_keys && is_run_key(name)) {
    return joined(spellings) +
           hint_of("--set " + name.substr(name.find_first_not_of('-')) + "=VALUE");
  }
  // An option with the name of a key of models or of another section: --sequence.
  std::string const word = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  auto const key = std::ranges::find_if(run_keys(), [&](KeyText const& known) {
    return !word.empty() && known.key.ends_with("." + word);
  });
  if (takes_keys && key != run_keys().end()) {
    return joined(spellings) + hint_of("--set " + std::string{key->key} + "=VALUE");
  }
  auto const* const other =
      std::ranges::find(other_names, name, [](auto const& pair) { return pair.first; });
  bool const is_known =
      other != other_names.end() && std::ranges::find(spellings, other->second) != spellings.end();
  return is_known ? joined(spellings) + hint_of(other->second) : accepted_of(name, spellings);
}

/// The error in a command line, worded as all messages: found and accepted.
CommandLineError complaint_of(po::error const& error, po::options_description const& options) {
  auto const* const at_option = dynamic_cast<po::error_with_option_name const*>(&error);
  if (at_option == nullptr) return {"command line", error};
  std::string const name = at_option->get_option_name();
  if (dynamic_cast<po::unknown_option const*>(&error) != nullptr) {
    std::vector<std::string> spellings;
    for (auto const& option : options.options()) spellings.push_back("--" + option->long_name());
    return {name, "an unknown option", accepted_options(name, spellings)};
  }
  if (dynamic_cast<po::multiple_occurrences const*>(&error) != nullptr) {
    return {name, "more than once", "once"};
  }
  auto const* const syntax = dynamic_cast<po::invalid_syntax const*>(&error);
  if (syntax != nullptr && syntax->kind() == po::invalid_syntax::missing_parameter) {
    po::option_description const* const option =
        options.find_nothrow(name.substr(name.find_first_not_of('-')), false);
    return {name, "", option == nullptr ? "a value" : option->format_parameter()};
  }
  return {"command line", error};
}

/// Refuses two values for one key, as in `--set a=1 --set a=2`: one would be lost silently.
void refuse_repeated_keys(Option const& option, std::vector<std::string> const& values) {
  std::set<std::string> keys;
  for (std::string const& text : values) {
    std::string const key = text.substr(0, text.find('='));
    if (keys.insert(key).second) continue;
    throw CommandLineError{option.shown(), "'" + key + "' more than once", "each key once"};
  }
}

}  // namespace

CommandLine::CommandLine(Command const& command, std::vector<std::string> const& words)
    : command_{&command}, words_{words} {
  auto const end = command.has_rest ? std::find(words.begin(), words.end(), "--") : words.end();
  if (end != words.end()) rest_.assign(end + 1, words.end());
  po::options_description const description = description_of(command);
  try {
    int const style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::parsed_options const parsed =
        po::command_line_parser{std::vector<std::string>{words.begin(), end}}
            .options(description)
            .style(style)
            .run();
    po::variables_map checked;
    po::store(parsed, checked);
    for (po::option const& option : parsed.options) {
      if (option.position_key >= 0) {
        arguments_.push_back(option.value.at(0));
      } else {
        given_[option.string_key].values.push_back(option.value.empty() ? "" : option.value.at(0));
      }
    }
  } catch (po::error const& error) {
    throw complaint_of(error, description);
  }
  if (command.argument.kind == Value::Kind::none && !arguments_.empty()) {
    refuse("command line", arguments_.front(), "options only");
  }
  for (Option const& option : all_options(command)) {
    Given& given = given_[option.name];
    if (!given.values.empty() || option.fallback.empty()) continue;
    given = {{option.fallback}, true};
  }
  if (!has("help")) check_words();
}

void CommandLine::check_words() const {
  for (Option const& option : command_->options) {
    if (option.may_repeat && option.value.name.find("=VALUE") != std::string::npos) {
      refuse_repeated_keys(option, values_of(option.name));
    }
    if (option.value.kind != Value::Kind::word) continue;
    std::vector<std::string> const& accepted = option.value.accepted;
    for (std::string const& word : values_of(option.name)) {
      if (std::find(accepted.begin(), accepted.end(), word) != accepted.end()) continue;
      throw unknown_word(option.shown(), word, accepted);
    }
  }
}

bool CommandLine::is_given(std::string_view option) const {
  return has(option) && !given_.find(option)->second.is_fallback;
}

std::vector<std::string> const& CommandLine::values_of(std::string_view option) const {
  auto const given = given_.find(option);
  if (given != given_.end()) return given->second.values;
  throw std::logic_error{command_->name + " has no option --" + std::string{option}};
}

std::optional<std::string> CommandLine::find(std::string_view option) const {
  if (!has(option)) return std::nullopt;
  return value(option);
}

Option const& CommandLine::declared(std::string_view option) const {
  return *std::find_if(command_->options.begin(), command_->options.end(),
                       [&](Option const& one) { return one.name == option; });
}

std::string const& CommandLine::needed(std::string_view option, std::string const& accepted) const {
  if (has(option)) return value(option);
  throw CommandLineError{declared(option).shown(), "", accepted};
}

int CommandLine::whole_number(std::string_view option, int least, int most) const {
  return stagecraft::whole_number(declared(option).shown(), value(option), least, most);
}

double CommandLine::number_from_zero(std::string_view option) const {
  return stagecraft::number_from_zero(declared(option).shown(), value(option));
}

std::string CommandLine::text() const {
  std::string text;
  for (std::string const& word : words_) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string options_text(Command const& command) {
  std::ostringstream text;
  text << description_of(command);
  return text.str();
}

CommandLineError::CommandLineError(Problem problem)
    : std::runtime_error{to_string(problem)}, problem_{std::move(problem)} {}

CommandLineError::CommandLineError(std::string option,
                                   std::string found,
                                   std::string accepted,
                                   std::string condition)
    : CommandLineError{Problem{.place = {},
                               .key = std::move(option),
                               .found = std::move(found),
                               .accepted = std::move(accepted),
                               .condition = std::move(condition)}} {}

CommandLineError::CommandLineError(std::string option, std::exception const& reason)
    : std::runtime_error{option + ": " + reason.what()} {
  problem_.key = std::move(option);
  problem_.found = reason.what();
}

CommandLineError unknown_word(std::string shown,
                              std::string const& word,
                              std::vector<std::string> const& accepted) {
  return {std::move(shown), "'" + word + "'", accepted_of(word, accepted)};
}

std::vector<std::string> list_items(std::string const& list) {
  std::vector<std::string_view> items = split_text(list, ",");
  if (items.back().empty()) items.pop_back();
  return {items.begin(), items.end()};
}

int whole_number(std::string const& shown, std::string const& text, int least, int most) {
  auto const number = parse_count(text);
  if (!number || *number < least || *number > most) {
    refuse(shown, text,
           "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return static_cast<int>(*number);
}

double number_from_zero(std::string const& shown, std::string const& text) {
  auto const number = parse_number<double>(text);
  if (!number || *number < 0) refuse(shown, text, "a number from 0");
  return *number;
}

}  // namespace stagecraft
