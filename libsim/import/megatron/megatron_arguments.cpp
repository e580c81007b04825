#include "libsim/import/megatron/megatron_arguments.hpp"

#include <algorithm>
#include <cmath>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/units/parse_number.hpp"

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

std::string plain(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  return std::to_string(value);
}

}  // namespace

MegatronArguments::MegatronArguments(std::vector<ShellWord> const& words,
                                     std::string const& origin,
                                     IgnoreList& ignored,
                                     Diagnostics& diagnostics)
    : origin_{std::make_shared<std::string const>(origin)},
      ignored_{ignored},
      diagnostics_{diagnostics} {
  read(words);
  refuse_others();
}

void MegatronArguments::read(std::vector<ShellWord> const& words) {
  for (std::size_t i = 0; i < words.size();) {
    ShellWord const& word = words[i++];
    std::string const name = name_of(word.text);
    if (name.empty()) {
      strays_.push_back(printable(word.text));
      continue;
    }
    Given given{word, {}, find_flag(name)};
    std::size_t const equals = word.text.find('=');
    bool const is_joined = equals != std::string::npos;
    if (is_joined) given.values.push_back({word.text.substr(equals + 1), word.line, word.column});
    auto const next_is_value = [&] { return i < words.size() && name_of(words[i].text).empty(); };
    if (given.known == nullptr) {
      while (next_is_value()) ++i;
      refuse_unknown(word, name);
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
    while (given.known->values == FlagValues::many && !is_joined && next_is_value()) {
      given.values.push_back(words[i++]);
    }
    if (given.known->values == FlagValues::none && is_joined) {
      add(word, name, shown(given.values.front()), "no value");
    }
    std::string_view const now = given.known->same_as;
    given_[now.empty() ? name : std::string{now}] = std::move(given);
  }
}

void MegatronArguments::refuse_unknown(ShellWord const& flag, std::string const& name) {
  if (ignored_.covers(name)) {
    note("ignored: --" + printable(name) + ", which this import does not know");
    return;
  }
  static std::vector<std::string> const names = flag_names();
  std::string const written = "--" + name;
  if (is_unresolved(name)) {
    add(flag, name, shown(flag), "the name of a flag, or --ignore '" + printable(name) + "'");
    return;
  }
  add(flag, name, "an unknown flag",
      "Megatron-LM's flags, or --ignore " + printable(name) + did_you_mean(written, names));
}

void MegatronArguments::refuse_others() {
  for (auto const& [name, given] : given_) {
    if (given.known->effect != MegatronFlag::Effect::other || is_moot(name)) continue;
    std::string_view const harmless = given.known->harmless;
    bool const has_value = given.values.size() == 1;
    if (!harmless.empty() && has_value && given.values[0].text == harmless) continue;
    std::string const instead = "modelled instead: " + std::string{given.known->instead};
    if (ignored_.covers(name)) {
      note("ignored: --" + name + "; " + instead);
      continue;
    }
    std::string const found = has_value ? shown(given.values[0]) : "the flag";
    std::string const accepted =
        harmless.empty() ? std::string{"a run without it"} : std::string{harmless};
    add(given.flag, name, found, accepted + ", or --ignore " + name + " (" + instead + ")");
  }
}

bool MegatronArguments::is_moot(std::string_view flag) const {
  bool const has_experts = has("num-experts") && text("num-experts") != "0";
  if (flag.starts_with("moe-") && !has_experts) return true;
  if (flag == "no-masked-softmax-fusion") {
    std::string const backend = text("attention-backend").value_or("");
    return has("use-flash-attn") || backend == "flash" || backend == "fused";
  }
  bool const has_other_activation = has("swiglu") || has("quick-geglu") || has("squared-relu");
  if (flag == "no-bias-gelu-fusion") return has("disable-bias-linear") || has_other_activation;
  return flag == "no-bias-swiglu-fusion" && !has("swiglu");
}

Place MegatronArguments::place(ShellWord const& word) const {
  return {origin_, word.line, word.column};
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
                               std::string const& instead) {
  if (ignored_.covers(flag)) {
    note("ignored: --" + std::string{flag} + "; modelled instead: " + instead);
  } else {
    report(flag, accepted + ", or --ignore " + std::string{flag} +
                     " (modelled instead: " + instead + ")");
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
  std::vector<std::string> idle;
  for (auto const& [name, given] : given_) {
    if (given.known->effect == MegatronFlag::Effect::none) idle.push_back("--" + name);
  }
  if (!idle.empty()) notes.push_back("without effect on memory and time: " + joined(idle));
  if (!strays_.empty()) notes.push_back("words that belong to no flag: " + joined(strays_));
  for (std::string const& name : ignored_.unused()) {
    notes.push_back("--ignore " + name + " was not needed");
  }
  return notes;
}

}  // namespace stagecraft
