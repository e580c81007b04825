#include "libsim/import/shell/shell_doubts.hpp"

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

/// A variable in a text, with the flag whose value it is or that it is a part of; empty if none.
struct Reference {
  std::string name;
  std::string flag;
};

std::vector<Reference> references_in(std::vector<std::string> const& written) {
  std::vector<Reference> references;
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

void add_flags_in(std::string_view text, std::set<std::string>& flags) {
  for (std::string const& part : parts_of(text)) {
    if (is_flag(part)) flags.insert(part.substr(0, part.find('=')));
  }
}

/// What a variable may be set to.
struct Settings {
  std::set<std::string> written;    ///< flags in the text itself
  std::set<std::string> inherited;  ///< flags in the values of other variables
  bool is_open = false;             ///< other flags may be in it
  bool replaces = false;            ///< what it is now is not in it
};

void add_flags_of(ShellVariables const& variables,
                  std::string_view name,
                  std::set<std::string>& flags) {
  auto const known = variables.find(name);
  if (known == variables.end()) return;
  for (ShellWord const& word : known->second.elements) add_flags_in(word.text, flags);
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

  std::map<std::string, Settings, std::less<>> found;
  bool leaves = false;

 private:
  static constexpr int deepest_ = 8;  ///< functions within functions

  void add(std::string_view name, std::vector<std::string> const& written, bool appends) {
    Settings& settings = found[std::string{name}];
    for (std::string const& text : written) {
      add_flags_in(text, settings.written);
      bool const is_output =
          text.find("$(") != std::string::npos && text.find("$((") == std::string::npos;
      settings.is_open = settings.is_open || is_output || text.find('`') != std::string::npos;
    }
    for (Reference const& reference : references_in(written)) {
      appends = appends || reference.name == name;
      bool const is_known = variables_.contains(reference.name) || found.contains(reference.name);
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
        found[text].is_open = true;
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
    if (command == "break" || command == "continue" || command == "return" || command == "exit") {
      leaves = true;
    }
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
      for (ShellBranch const& branch : function->second->branches) read(branch.body);
      --depth_;
    }
  }

  ShellVariables const& variables_;
  ShellFunctions const& functions_;
  int depth_ = 0;
  int left_ = 10'000;  ///< commands to read, for functions that call each other often
};

}  // namespace

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
  SettingsFinder finder{variables, functions};
  finder.read(commands);
  std::set<std::string> names;
  for (auto const& [name, settings] : finder.found) {
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

std::size_t ShellDoubts::add(ScriptDoubt doubt) {
  auto const equal = std::ranges::find_if(list_, [&](ScriptDoubt const& known) {
    return known.place.line == doubt.place.line && known.place.column == doubt.place.column &&
           known.what == doubt.what;
  });
  if (equal != list_.end()) return static_cast<std::size_t>(equal - list_.begin());
  list_.push_back(std::move(doubt));
  return list_.size() - 1;
}

bool ShellDoubts::touch(std::size_t doubt,
                        ShellCommands const& commands,
                        ShellVariables const& variables,
                        ShellFunctions const& functions) {
  SettingsFinder finder{variables, functions};
  finder.read(commands);
  for (auto& [name, settings] : finder.found) {
    std::set<std::string> now;
    add_flags_of(variables, name, now);
    Taint& taint = taints_[name][doubt];
    for (std::string const& flag : settings.inherited) {
      if (!now.contains(flag) && !name.empty()) taint.flags.insert(flag);
    }
    // What the variable has now may be lost.
    for (std::string const& flag : now) {
      bool const stays = settings.inherited.contains(flag) || settings.written.contains(flag);
      if (settings.replaces && !stays) taint.flags.insert(flag);
    }
    taint.flags.merge(settings.written);
    taint.is_open = taint.is_open || settings.is_open;
  }
  return finder.leaves;
}

ShellDoubts::Taints ShellDoubts::taints_of(std::vector<std::string> const& written) const {
  Taints all;
  for (Reference const& reference : references_in(written)) {
    auto const tainted = taints_.find(reference.name);
    if (tainted == taints_.end()) continue;
    for (auto const& [doubt, taint] : tainted->second) {
      Taint& result = all[doubt];
      result.flags.insert(taint.flags.begin(), taint.flags.end());
      if (!taint.flags.empty()) continue;
      if (!reference.flag.empty()) {
        result.flags.insert(reference.flag);
      } else {
        result.is_open = result.is_open || taint.is_open;
        result.name = reference.name;
      }
    }
  }
  return all;
}

void ShellDoubts::settle(std::string const& name,
                         std::vector<std::string> const& written,
                         bool appends) {
  Taints taints = taints_of(written);
  if (!appends) taints_.erase(name);
  for (auto& [doubt, taint] : taints) {
    Taint& known = taints_[name][doubt];
    known.flags.merge(taint.flags);
    known.is_open = known.is_open || taint.is_open;
  }
}

std::map<std::size_t, std::set<std::string>> ShellDoubts::reaching(
    std::vector<std::string> const& written) const {
  std::map<std::size_t, std::set<std::string>> flags;
  for (auto const& [doubt, taint] : taints_of(written)) {
    flags[doubt] = taint.flags;
    if (taint.flags.empty() && taint.is_open) flags[doubt].insert("$" + taint.name);
  }
  return flags;
}

bool ShellDoubts::may_have_flags(std::string_view name) const {
  auto const tainted = taints_.find(name);
  return tainted != taints_.end() && std::ranges::any_of(tainted->second, [](auto const& entry) {
           return !entry.second.flags.empty();
         });
}

std::map<std::size_t, std::set<std::string>> ShellDoubts::reaching_other_commands() const {
  std::map<std::size_t, std::set<std::string>> flags;
  auto const other = taints_.find("");
  if (other == taints_.end()) return flags;
  for (auto const& [doubt, taint] : other->second) flags[doubt] = taint.flags;
  return flags;
}

}  // namespace stagecraft
