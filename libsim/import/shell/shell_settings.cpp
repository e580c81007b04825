#include "libsim/import/shell/shell_settings.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "libsim/import/shell/shell_expansion.hpp"

namespace stagecraft {
namespace {

/// The parts of a text between blanks that are in no brackets, without their quotes.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char const c : text) {
    if (c == '(' || c == '{') ++depth;
    if (c == ')' || c == '}') --depth;
    bool const ends = (is_blank(c) || c == '\n') && depth <= 0;
    if (ends && !part.empty()) parts.push_back(std::exchange(part, {}));
    if (!ends && c != '"' && c != '\'' && c != '\\') part += c;
  }
  if (!part.empty()) parts.push_back(std::move(part));
  return parts;
}

bool is_flag(std::string_view part) {
  return part.size() > 2 && part.starts_with("--") &&
         (std::isalpha(static_cast<unsigned char>(part[2])) != 0 || part[2] == '$');
}

void add_flags_in(std::string_view text, std::set<std::string>& flags) {
  for (std::string const& part : parts_of(text)) {
    if (is_flag(part)) flags.insert(part.substr(0, part.find('=')));
  }
}

/// Finds what commands may set.
class SettingsFinder {
 public:
  SettingsFinder(ShellVariables const& variables, ShellFunctions const& functions)
      : variables_{variables}, functions_{functions} {}

  void read(ShellCommands const& commands) {
    for (ShellCommand const& command : commands) {
      if (command.kind == ShellCommand::Kind::function || --left_ < 0) continue;
      if (command.kind == ShellCommand::Kind::simple) read_simple(command.tokens);
      if (command.kind == ShellCommand::Kind::for_each && !command.tokens.empty()) {
        add(command.tokens.front().word.text, written_words(command.tokens), false);
      }
      for (ShellBranch const& branch : command.branches) {
        read(branch.condition);
        read(branch.body);
      }
    }
  }

  ShellEffects effects;

 private:
  static constexpr int deepest_ = 8;  ///< functions within functions

  void add(std::string_view name, std::vector<std::string> const& written, bool appends) {
    ShellSettings& settings = effects.settings[std::string{name}];
    for (std::string const& text : written) {
      add_flags_in(text, settings.written);
      bool const is_output =
          text.find("$(") != std::string::npos && text.find("$((") == std::string::npos;
      settings.is_open = settings.is_open || is_output || text.find('`') != std::string::npos;
    }
    for (ShellReference const& reference : references_in(written)) {
      appends = appends || reference.name == name;
      bool const is_known =
          variables_.contains(reference.name) || effects.settings.contains(reference.name);
      settings.is_open = settings.is_open || !is_known;
      if (reference.name != name) add_flags_of(variables_, reference.name, settings.inherited);
    }
    settings.replaces = settings.replaces || !appends;
  }

  void read_simple(std::vector<ShellToken> const& tokens) {
    constexpr std::array<std::string_view, 6> setting_words{"read",  "mapfile", "readarray",
                                                            "unset", "let",     "printf"};
    std::string command;
    for (ShellToken const& token : tokens) {
      std::string const& text = token.word.text;
      if (token.kind == ShellToken::Kind::array) {
        add(text, written_words({token}), token.appends);
        continue;
      }
      if (token.kind != ShellToken::Kind::word) continue;
      std::string_view const name = assigned_name(text);
      bool const is_setter = std::ranges::find(setting_words, command) != setting_words.end();
      if (!name.empty() && (command.empty() || command == "export" || command == "declare" ||
                            command == "local" || command == "readonly" || command == "let")) {
        std::size_t const equals = text.find('=');
        add(name, {text.substr(equals + 1)}, text[equals - 1] == '+');
      } else if (is_setter && std::ranges::all_of(text, is_name_character)) {
        effects.settings[text].is_open = true;
      } else if (command == "eval") {
        for (std::string const& part : parts_of(text)) {
          if (auto const inner = assigned_name(part); !inner.empty()) {
            add(inner, {text}, false);
          }
        }
      } else if (command == "set") {
        add("@", {text}, true);
      } else if (command.empty()) {
        command = text;
      }
    }
    if (command == "break" || command == "continue") effects.leaves = true;
    if (command == "return") effects.returns = true;
    if (command == "exit") effects.exits = true;
    std::vector<std::string> const written = written_words(tokens);
    bool const has_layers = std::ranges::any_of(written, [](std::string const& text) {
      return text.find("--num-layers") != std::string::npos;
    });
    if (has_layers && assigned_name(written.front()).empty() && command != "echo") {
      add("", written, true);
    }
    if (auto const function = functions_.find(command);
        function != functions_.end() && depth_ < deepest_) {
      ++depth_;
      // What its commands leave is the function itself.
      bool const leaves = effects.leaves;
      bool const returns = effects.returns;
      for (ShellBranch const& branch : function->second->branches) read(branch.body);
      effects.leaves = leaves;
      effects.returns = returns;
      --depth_;
    }
  }

  ShellVariables const& variables_;
  ShellFunctions const& functions_;
  int depth_ = 0;
  int left_ = 10'000;  ///< commands to read, for functions that call each other often
};

}  // namespace

std::vector<ShellReference> references_in(std::vector<std::string> const& written) {
  std::vector<ShellReference> references;
  std::string flag;
  for (std::string const& text : written) {
    for (std::string const& part : parts_of(text)) {
      bool const is_name = is_flag(part);
      if (is_name) flag = part.substr(0, part.find('='));
      for (std::string& name : open_names(part)) references.push_back({std::move(name), flag});
      if (part.find("$@") != std::string::npos || part.find("$*") != std::string::npos) {
        references.push_back({"@", {}});
      }
      if (!is_name || flag.size() < part.size()) flag.clear();
    }
  }
  return references;
}

void add_flags_of(ShellVariables const& variables,
                  std::string_view name,
                  std::set<std::string>& flags) {
  auto const known = variables.find(name);
  if (known == variables.end()) return;
  for (ShellWord const& word : known->second.elements) add_flags_in(word.text, flags);
}

ShellEffects effects_of(ShellCommands const& commands,
                        ShellVariables const& variables,
                        ShellFunctions const& functions) {
  SettingsFinder finder{variables, functions};
  finder.read(commands);
  return std::move(finder.effects);
}

std::vector<std::string> written_words(std::vector<ShellToken> const& tokens) {
  std::vector<std::string> written;
  for (ShellToken const& token : tokens) {
    if (token.kind == ShellToken::Kind::word) written.push_back(token.word.text);
    for (ShellWord const& element : token.elements) written.push_back(element.text);
  }
  return written;
}

std::set<std::string> variables_of_flags(ShellCommands const& commands) {
  ShellVariables const variables;
  ShellFunctions const functions;
  std::set<std::string> names;
  for (auto const& [name, settings] : effects_of(commands, variables, functions).settings) {
    if (!settings.written.empty()) names.insert(name);
  }
  return names;
}

std::string_view assigned_name(std::string_view word) {
  std::size_t const equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) return {};
  std::string_view name = word.substr(0, equals);
  if (name.back() == '+') name.remove_suffix(1);
  bool const is_digit = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0;
  return !is_digit && std::ranges::all_of(name, is_name_character) ? name : std::string_view{};
}

}  // namespace stagecraft
