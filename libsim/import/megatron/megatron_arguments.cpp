#include "libsim/import/megatron/megatron_arguments.hpp"

#include <algorithm>
#include <cmath>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/import/megatron/megatron_settings.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/units/parse_number.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

/// The name in `--name` or `--name=value`; empty for any other word.
std::string name_of(std::string const& word) {
  if (word.size() < 3 || word.rfind("--", 0) != 0) return {};
  return word.substr(2,
                     word.find('=') == std::string::npos ? std::string::npos : word.find('=') - 2);
}

/// All of `text` as a number. Like Python, it accepts underscores between digits.
template <typename Number>
std::optional<Number> parsed(std::string text) {
  std::erase(text, '_');
  return parse_number<Number>(text);
}

/// How a value that the script leaves open is given.
std::string shown(ShellWord const& word) {
  std::string text = "'" + printable(word.text) + "'";
  if (!is_unresolved(word.text)) return text;
  std::vector<std::string> names = open_names(word.text);
  bool const is_script_argument =
      std::ranges::any_of(names, [](std::string const& name) { return name[0] <= '9'; });
  for (std::string& name : names) name = "--variable " + name + "=VALUE";
  if (names.empty()) return text + ", which only the shell can settle";
  return text + ", which the script does not set (" + joined(names) +
         (is_script_argument ? ", or the script's arguments after --script FILE)" : ")");
}

/// The values of a flag in one text.
std::string values_of(std::vector<ShellWord> const& values) {
  std::string text;
  for (ShellWord const& value : values) text += (text.empty() ? "" : " ") + printable(value.text);
  return text;
}

/// Whether a word is a variable or the output of a command, and nothing else.
bool is_open_word(std::string_view word) {
  if (word.size() < 2) return false;
  if (word.front() == '`') return word.back() == '`';
  if (word.front() != '$') return false;
  std::string_view const rest = word.substr(1);
  bool const is_name = std::ranges::all_of(rest, is_name_character);
  return is_name || (rest.front() == '{' && rest.find('}') == rest.size() - 1) ||
         (rest.front() == '(' && rest.back() == ')');
}

/// Whether a word that is not known ends the values of a flag, as it may have flags in it. It is
/// one of them if it is the first, or stands behind a weight.
bool ends_values(std::string const& word, std::vector<ShellWord> const& values) {
  return is_open_word(word) && !values.empty() && !parse_number<double>(values.back().text);
}

/// The words of a list that is written as in YAML, such as `[moe_act, mlp]`.
void drop_brackets(std::vector<ShellWord>& words) {
  for (ShellWord& word : words) {
    if (word.text.starts_with('[')) word.text.erase(0, 1);
    while (word.text.ends_with(']') || word.text.ends_with(',')) word.text.pop_back();
  }
  std::erase_if(words, [](ShellWord const& word) { return word.text.empty(); });
}

std::string plain(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  return std::to_string(value);
}

/// Whether a flag has all parts of another one, and more between them: --tensor-parallel-size.
bool has_parts_of(std::string_view flag, std::string_view written) {
  auto const parts = split_text(written, "-");
  std::size_t found = 0;
  for (std::string_view const part : split_text(flag, "-")) {
    if (found < parts.size() && part == parts[found]) ++found;
  }
  return found == parts.size();
}

/// The known flag of which `written` is a misspelling, or which it shortens; empty if there is
/// none. Flags of other programs are rarely nearer than three letters to one of Megatron-LM's.
std::string_view meant_flag(std::string_view written, std::vector<std::string> const& names) {
  constexpr std::size_t most_edits = 2;
  constexpr std::ptrdiff_t least_dashes = 4;  // three parts, behind the dashes of an option
  std::string_view const near = nearest_word(written, names, most_edits);
  if (!near.empty() || std::ranges::count(written, '-') < least_dashes) return near;
  std::string_view shortest;
  for (std::string const& name : names) {
    bool const is_shorter = shortest.empty() || name.size() < shortest.size();
    if (is_shorter && has_parts_of(name, written)) shortest = name;
  }
  return shortest;
}

}  // namespace

MegatronArguments::MegatronArguments(std::vector<ShellWord> const& words,
                                     std::string const& origin,
                                     Omissions& omissions,
                                     Diagnostics& diagnostics)
    : origin_{std::make_shared<std::string const>(origin)},
      omissions_{omissions},
      diagnostics_{diagnostics} {
  read(words);
  leave_out_others();
}

void MegatronArguments::read(std::vector<ShellWord> const& words, bool are_settings) {
  for (std::size_t i = 0; i < words.size();) {
    ShellWord const& word = words[i++];
    std::string const name = name_of(word.text);
    if (name.empty()) {
      if (is_setting(word.text)) {
        read(flags_of_setting(word), true);
      } else if (is_open_word(word.text)) {
        leave_out_open(word);
      } else {
        strays_.push_back(printable(word.text));
      }
      continue;
    }
    Given given{word, {}, find_flag(name)};
    std::size_t const equals = word.text.find('=');
    bool const is_joined = equals != std::string::npos;
    if (is_joined) {
      given.values.push_back({word.text.substr(equals + 1), word.line, word.column, word.file});
    }
    auto const next_is_value = [&] { return i < words.size() && name_of(words[i].text).empty(); };
    if (given.known == nullptr) {
      while (next_is_value() && !ends_values(words[i].text, given.values)) {
        given.values.push_back(words[i++]);
      }
      if (name.find('_') != std::string::npos && is_setting_name(name)) {
        std::vector<std::string> values;
        for (ShellWord const& value : given.values) values.push_back(value.text);
        std::string const text = is_joined ? word.text.substr(2) : joined_setting(name, values);
        read(flags_of_setting({text, word.line, word.column, word.file}), true);
        continue;
      }
      leave_out_unknown(word, name, values_of(given.values));
      continue;
    }
    if (given.known->values == FlagValues::one && !is_joined) {
      if (next_is_value()) {
        given.values.push_back(words[i++]);
      } else if (given.known->effect == MegatronFlag::Effect::none) {
        note("--" + name + " has no value here; it has no effect on memory and time");
        continue;
      } else {
        add(word, name, "no value", "a value after it");
        continue;
      }
    }
    while (given.known->values == FlagValues::many && !is_joined && next_is_value() &&
           !ends_values(words[i].text, given.values)) {
      given.values.push_back(words[i++]);
    }
    if (given.known->values == FlagValues::many) drop_brackets(given.values);
    bool const wants_values = given.known->values == FlagValues::many &&
                              given.known->effect == MegatronFlag::Effect::modelled;
    if (wants_values && given.values.empty() && !are_settings) {
      add(word, name, "no value", "at least one argument after it");
      continue;
    }
    std::string_view const now = given.known->same_as;
    bool const is_taken_back =
        is_joined && (are_settings || word.file) && given.values.front().text == taken_back;
    if (is_taken_back) {
      given_.erase(now.empty() ? name : std::string{now});
      continue;
    }
    if (given.known->values == FlagValues::none && is_joined) {
      if (given.values.front().text == "false") {
        given_.erase(now.empty() ? name : std::string{now});
        continue;
      }
      add(word, name, shown(given.values.front()),
          are_settings || word.file ? "true or false" : "no value");
    }
    given_[now.empty() ? name : std::string{now}] = std::move(given);
  }
}

void MegatronArguments::leave_out_unknown(ShellWord const& flag,
                                          std::string const& name,
                                          std::string value) {
  static std::vector<std::string> const names = flag_names();
  std::string const written = "--" + printable(name);
  Omission omission{.name = written, .value = std::move(value), .effect = OmittedEffect::unknown};
  if (omissions_.ignores(name)) {
    note("ignored: " + written + ", which this import does not know");
    omission.is_asked = true;
    omissions_.add(std::move(omission));
    return;
  }
  if (is_unresolved(name)) {
    add(flag, name, shown(flag), "the name of a flag, or --ignore '" + printable(name) + "'");
    return;
  }
  std::string const meant = hint_of(meant_flag(written, names));
  if (meant.empty() && !omissions_.is_strict()) {
    omissions_.add(std::move(omission));
    return;
  }
  add(flag, name, "an unknown flag", "Megatron-LM's flags, or --ignore " + printable(name) + meant);
}

void MegatronArguments::leave_out_open(ShellWord const& word) {
  std::vector<std::string> options;
  bool is_asked = false;
  for (std::string const& name : open_names(word.text)) {
    options.push_back("--variable " + name + "=VALUE");
    is_asked = omissions_.ignores(name) || is_asked;
  }
  std::string const text = printable(word.text);
  if (!is_asked && omissions_.is_strict()) {
    std::string const remedy =
        options.empty() ? "" : joined(options) + ", or --ignore " + open_names(word.text).front();
    diagnostics_.add({place(word), text,
                      "a word that the script does not set and that may be flags",
                      remedy.empty() ? "flags" : remedy});
    return;
  }
  std::string const line = word.line > 0 ? "line " + std::to_string(word.line) + ": " : "";
  omissions_.add({.name = text,
                  .effect = OmittedEffect::unknown,
                  .consequence = line + "the script does not set it, so flags in it are missing" +
                                 (options.empty() ? "" : " (" + joined(options) + ")"),
                  .is_asked = is_asked});
}

void MegatronArguments::leave_out_others() {
  for (auto const& [name, given] : given_) {
    MegatronFlag const& flag = *given.known;
    if (flag.effect == MegatronFlag::Effect::modelled) continue;
    std::string const value = values_of(given.values);
    bool const is_harmless = !flag.harmless.empty() && value == flag.harmless;
    if (flag.effect == MegatronFlag::Effect::none || is_harmless || is_moot(flag)) {
      omissions_.add({.name = "--" + name, .value = value});
    } else {
      leave_out(name, given);
    }
  }
}

void MegatronArguments::leave_out(std::string_view name, Given const& given) {
  MegatronFlag const& flag = *given.known;
  bool const is_program = flag.effect == MegatronFlag::Effect::program;
  bool const is_small = flag.effect == MegatronFlag::Effect::small;
  std::string const instead{flag.instead};
  Omission omission{.name = "--" + std::string{name},
                    .value = values_of(given.values),
                    .effect = is_small ? OmittedEffect::small : OmittedEffect::large,
                    .direction = std::string{flag.direction},
                    .consequence = "modelled instead: " + instead};
  if (omissions_.ignores(name)) {
    note("ignored: --" + std::string{name} + "; modelled instead: " + instead);
    omission.is_asked = true;
    omissions_.add(std::move(omission));
  } else if (is_program || omissions_.is_strict()) {
    std::string accepted =
        flag.harmless.empty() ? std::string{"a run without it"} : std::string{flag.harmless};
    if (is_program) accepted += ", as it makes the run " + std::string{flag.direction};
    is_of_other_program_ = is_of_other_program_ || is_program;
    add(given.flag, name, given.values.size() == 1 ? shown(given.values[0]) : "the flag",
        accepted + ", or --ignore " + std::string{name} + " (modelled instead: " + instead + ")");
  } else {
    omissions_.add(std::move(omission));
  }
}

bool MegatronArguments::is_moot(MegatronFlag const& flag) const {
  auto const is_on = [&](std::string_view name) { return has(name) && text(name) != "0"; };
  if (flag.name.starts_with("moe-") && !is_on("num-experts")) return true;
  if (!flag.needs.empty()) {
    auto const needed = split_text(flag.needs, " ");
    if (std::ranges::none_of(needed, is_on)) return true;
  }
  if (flag.name == "deepspeed-config" || flag.name == "deepspeed_config") return has("zero-stage");
  if (flag.name == "no-masked-softmax-fusion") {
    std::string const backend = text("attention-backend").value_or("");
    return has("use-flash-attn") || backend == "flash" || backend == "fused";
  }
  bool const has_other_activation = has("swiglu") || has("quick-geglu") || has("squared-relu");
  if (flag.name == "no-bias-gelu-fusion") return has("disable-bias-linear") || has_other_activation;
  return flag.name == "no-bias-swiglu-fusion" && !has("swiglu");
}

Place MegatronArguments::place(ShellWord const& word) const {
  return {word.file ? word.file : origin_, word.line, word.column};
}

void MegatronArguments::add(ShellWord const& word,
                            std::string_view flag,
                            std::string found,
                            std::string accepted) const {
  diagnostics_.add({place(word), "--" + printable(flag), std::move(found), std::move(accepted)});
}

ShellWord const* MegatronArguments::value(std::string_view flag) const {
  auto const found = given_.find(flag);
  if (found == given_.end() || found->second.values.empty()) return nullptr;
  return &found->second.values.front();
}

std::optional<std::int64_t> MegatronArguments::integer(std::string_view flag,
                                                       IntegerRange range) const {
  ShellWord const* const word = value(flag);
  if (word == nullptr) return std::nullopt;
  auto const number = parsed<std::int64_t>(word->text);
  if (number && *number >= range.smallest && *number <= range.largest) return number;
  add(*word, flag, shown(*word),
      "a whole number from " + std::to_string(range.smallest) + " to " +
          std::to_string(range.largest));
  return std::nullopt;
}

std::int64_t MegatronArguments::required(std::string_view flag,
                                         IntegerRange range,
                                         std::string_view remedy) const {
  if (has(flag)) return integer(flag, range).value_or(0);
  add({}, flag, "",
      "a whole number from " + std::to_string(range.smallest) + " to " +
          std::to_string(range.largest) + std::string{remedy});
  return 0;
}

std::optional<double> MegatronArguments::number(std::string_view flag, NumberRange range) const {
  ShellWord const* const word = value(flag);
  if (word == nullptr) return std::nullopt;
  auto const number = parsed<double>(word->text);
  if (number && *number >= range.lower &&
      (*number < range.upper || (range.includes_upper && *number == range.upper))) {
    return number;
  }
  add(*word, flag, shown(*word),
      "a number from " + plain(range.lower) + (range.includes_upper ? " to " : " to below ") +
          plain(range.upper));
  return std::nullopt;
}

std::optional<std::string> MegatronArguments::text(std::string_view flag) const {
  ShellWord const* const word = value(flag);
  return word == nullptr ? std::nullopt : std::optional{word->text};
}

std::vector<std::string> MegatronArguments::texts(std::string_view flag) const {
  std::vector<std::string> texts;
  auto const found = given_.find(flag);
  if (found == given_.end()) return texts;
  for (ShellWord const& word : found->second.values) texts.push_back(word.text);
  return texts;
}

std::string_view MegatronArguments::written_name(std::string_view flag) const {
  auto const found = given_.find(flag);
  return found == given_.end() ? std::string_view{} : found->second.known->name;
}

void MegatronArguments::report(std::string_view flag, std::string const& accepted) const {
  auto const found = given_.find(flag);
  ShellWord const* const word = value(flag);
  if (word != nullptr) {
    add(*word, flag, shown(*word), accepted);
  } else {
    add(found == given_.end() ? ShellWord{} : found->second.flag, flag,
        found == given_.end() ? "" : "the flag", accepted);
  }
}

void MegatronArguments::report_run(std::string what,
                                   std::string found,
                                   std::string accepted) const {
  diagnostics_.add({Place{origin_}, std::move(what), std::move(found), std::move(accepted)});
}

void MegatronArguments::refuse(std::string_view flag,
                               std::string const& accepted,
                               ModelledInstead const& instead) {
  auto const found = given_.find(flag);
  Omission omission{.name = "--" + std::string{flag},
                    .value = found == given_.end() ? "" : values_of(found->second.values),
                    .effect = instead.effect,
                    .direction = std::string{instead.direction},
                    .consequence = "modelled instead: " + instead.what};
  if (omissions_.ignores(flag)) {
    note("ignored: --" + std::string{flag} + "; modelled instead: " + instead.what);
    omission.is_asked = true;
    omissions_.add(std::move(omission));
  } else if (omissions_.is_strict()) {
    report(flag, accepted + ", or --ignore " + std::string{flag} +
                     " (modelled instead: " + instead.what + ")");
  } else {
    omissions_.add(std::move(omission));
  }
}

std::string MegatronArguments::old_flag() const {
  for (auto const& [name, given] : given_) {
    if (given.known->is_old) return std::string{"--"} + std::string{given.known->name};
  }
  return {};
}

std::vector<std::string> MegatronArguments::finish() {
  std::vector<std::string> notes = std::move(notes_);
  if (!strays_.empty()) notes.push_back("words that belong to no flag: " + joined(strays_));
  for (std::string const& name : omissions_.unused()) {
    notes.push_back("--ignore " + name + " was not needed");
  }
  return notes;
}

}  // namespace stagecraft
