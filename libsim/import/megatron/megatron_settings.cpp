#include "libsim/import/megatron/megatron_settings.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/import/megatron/megatron_config_names.hpp"
#include "libsim/import/megatron/megatron_flag_table.hpp"
#include "libsim/run/foreign_format.hpp"
#include "libsim/units/parse_number.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

/// Whether a setting switches a flag on, as PyYAML reads it; nullopt if it says neither.
std::optional<bool> switch_of(std::string_view text) {
  constexpr std::array<std::string_view, 10> on{"true", "True", "TRUE", "yes", "Yes",
                                                "YES",  "on",   "On",   "ON",  "1"};
  constexpr std::array<std::string_view, 10> off{"false", "False", "FALSE", "no",  "No",
                                                 "NO",    "off",   "Off",   "OFF", "0"};
  if (std::ranges::find(on, text) != on.end()) return true;
  return std::ranges::find(off, text) != off.end() ? std::optional{false} : std::nullopt;
}
bool is_false(std::string_view text) { return text == "false" || text == "False"; }
bool is_null(std::string_view text) {
  return text.empty() || text == "null" || text == "None" || text == "~";
}

/// The flag that switches off what `flag` names, with `no-` or `disable-` before the name, or with
/// `no-` inside of it, as --bert-no-binary-head has; null if there is none.
MegatronFlag const* negated_flag(std::string const& flag) {
  if (MegatronFlag const* const known = find_flag("disable-" + flag)) return known;
  for (std::size_t start = 0;; ++start) {
    std::string negated = flag;
    if (MegatronFlag const* const known = find_flag(negated.insert(start, "no-"))) return known;
    start = flag.find('-', start);
    if (start == std::string::npos) return nullptr;
  }
}

/// Whether a list of words that blanks separate has `word`.
bool has_word(std::string_view list, std::string_view word) {
  std::vector<std::string_view> const words = split_text(list, " ");
  return std::ranges::find(words, word) != words.end();
}

std::string with_dashes(std::string_view name) {
  std::string flag{name};
  std::ranges::replace(flag, '_', '-');
  return flag;
}

/// `flash` of `AttnBackend.flash`.
std::string last_part(std::string const& text) { return text.substr(text.rfind('.') + 1); }

/// `fp32` of `torch.float32`.
std::string short_type(std::string const& text) {
  std::string const name = last_part(text);
  if (name == "float32") return "fp32";
  if (name == "bfloat16") return "bf16";
  return name == "float16" ? "fp16" : name;
}

/// A setting with the place of its value.
struct Setting {
  std::string_view name;  ///< without sections
  std::vector<std::string> values;
  bool is_list = false;
  Place place{};
};

/// What a name that no table knows is.
enum class UnknownName : std::uint8_t {
  flag,      ///< a flag, as on a command line
  misspelt,  ///< a flag if it is near to one, else a setting of another program
  setting,   ///< a setting of the program whose file it is
};

/// Collects the flags of settings, as words of a command line in the order in which they came. It
/// owns the words, and the settings that are no flag of any table.
class FlagsOfSettings {
 public:
  explicit FlagsOfSettings(UnknownName unknown_name) : unknown_name_{unknown_name} {}

  void add(Setting setting) {
    if (setting.values.empty()) return;
    if (setting.name == "attention_backend") setting.values[0] = last_part(setting.values[0]);
    // ms-swift's is the name of a rule of weights.
    bool const is_rule = setting.name == "loss_scale" && !parse_number<double>(setting.values[0]);
    if (is_rule && !is_null(setting.values[0])) return;
    if (setting.name.ends_with("_dtype")) setting.values[0] = short_type(setting.values[0]);
    if (!setting.is_list && is_null(setting.values[0])) return take_back(setting);
    // A setting may say several flags.
    bool is_renamed = false;
    for (ConfigName const& renamed : config_names) {
      if (renamed.name != setting.name) continue;
      add_renamed(renamed, setting);
      is_renamed = true;
    }
    if (is_renamed) return;
    if (is_dtype(setting)) {
      add_dtype(setting);
    } else if (setting.name == "num_query_groups") {
      // The configuration has no switch beside it.
      give("group-query-attention", setting);
      give_values("num-query-groups", setting);
    } else {
      add_named(setting);
    }
  }

  /// The words that take flags of earlier files back, and then the flags.
  ShellWords words() && {
    words_.insert(words_.begin(), taken_back_.begin(), taken_back_.end());
    return std::move(words_);
  }
  /// Settings that no table knows.
  std::vector<Omission> const& unknown() const { return unknown_; }

 private:
  static std::string text_of(Setting const& setting) {
    if (!setting.is_list) return setting.values.empty() ? "" : setting.values.front();
    std::string text = setting.name == "window_size" ? "(" : "[";
    for (std::string const& value : setting.values) text += (text.size() > 1 ? "," : "") + value;
    return text + (setting.name == "window_size" ? ")" : "]");
  }

  void give(std::string_view flag, Setting const& setting) {
    words_.push_back(
        {"--" + std::string{flag}, setting.place.line, setting.place.column, setting.place.origin});
  }
  void take_back(std::string_view flag, Setting const& setting) {
    taken_back_.push_back({"--" + std::string{flag} + "=" + std::string{taken_back},
                           setting.place.line, setting.place.column, setting.place.origin});
  }
  /// A setting of no value takes back what an earlier file says under the same name. It does not
  /// take back what its own file says in another section.
  void take_back(Setting const& setting) {
    bool is_renamed = false;
    for (ConfigName const& renamed : config_names) {
      if (renamed.name != setting.name) continue;
      if (renamed.says != ConfigName::Says::is_zero) take_back(renamed.flag, setting);
      is_renamed = true;
    }
    if (is_renamed) return;
    std::string const flag = with_dashes(setting.name);
    MegatronFlag const* known = find_flag(flag);
    if (known == nullptr) known = find_flag(setting.name);
    if (known == nullptr) known = negated_flag(flag);
    if (known == nullptr) return;
    take_back(known->name, setting);
    if (setting.name == "num_query_groups") take_back("group-query-attention", setting);
  }
  void give_values(std::string_view flag, Setting const& setting) {
    MegatronFlag const* const known = find_flag(flag);
    if (known != nullptr && known->values == FlagValues::many) {
      give(flag, setting);
      for (std::string const& value : setting.values) {
        words_.push_back({value, setting.place.line, setting.place.column, setting.place.origin});
      }
    } else {
      give(std::string{flag} + "=" + text_of(setting), setting);
    }
  }

  void add_renamed(ConfigName const& entry, Setting const& setting) {
    std::string const value = text_of(setting);
    if (entry.says == ConfigName::Says::value) {
      give_values(entry.flag, setting);
    } else if (entry.says == ConfigName::Says::is_zero) {
      if (switch_of(value) == false) give(std::string{entry.flag} + "=0", setting);
    } else {
      give_switch(entry.flag, entry.says == ConfigName::Says::is_set, setting);
    }
  }
  /// A flag without a value, which the setting switches on if it says `on`. One that an earlier
  /// file gives is taken back by `=false`; who reads the flags refuses other values.
  void give_switch(std::string_view flag, bool on, Setting const& setting) {
    std::string const value = text_of(setting);
    auto const says = switch_of(value);
    MegatronFlag const* const known = find_flag(flag);
    bool const is_idle = known != nullptr && known->effect == MegatronFlag::Effect::none;
    if (!says && !is_idle) return give(std::string{flag} + "=" + value, setting);
    give(std::string{flag} + (says.value_or(on) == on ? "" : "=false"), setting);
  }

  static bool is_dtype(Setting const& setting) {
    return setting.name == "params_dtype" || setting.name == "precision" ||
           setting.name == "mixed_precision";
  }
  void add_dtype(Setting const& setting) {
    std::string const value = text_of(setting);
    auto const has = [&](std::string_view part) { return value.find(part) != std::string::npos; };
    if (has("bf16") || has("bfloat16")) {
      give("bf16", setting);
    } else if (has("fp16") || has("float16") || value.starts_with("16")) {
      give("fp16", setting);
    }
    if (has("fp8")) give("fp8-format=hybrid", setting);
  }

  /// A name that is a flag, with underscores for dashes, or one that --no-NAME or --disable-NAME
  /// switches off.
  void add_named(Setting const& setting) {
    std::string const flag = with_dashes(setting.name);
    std::string const value = text_of(setting);
    // Some flags have underscores themselves.
    MegatronFlag const* known = find_flag(flag);
    if (known == nullptr) known = find_flag(setting.name);
    if (known == nullptr) {
      if (MegatronFlag const* const negated = negated_flag(flag)) {
        return give_switch(negated->name, false, setting);
      }
      if (is_false(value)) return;
      bool const may_be_flag = unknown_name_ == UnknownName::misspelt && is_misspelt(flag);
      if (unknown_name_ == UnknownName::flag || may_be_flag) {
        give(flag + "=" + value, setting);
      } else {
        unknown_.push_back(
            {.name = std::string{setting.name}, .value = value, .effect = OmittedEffect::unknown});
      }
    } else if (known->values == FlagValues::none) {
      give_switch(known->name, true, setting);
    } else if (is_false(value)) {
      take_back(known->name, setting);
    } else {
      give_values(known->name, setting);
    }
  }

  /// Whether the flag is probably a misspelt one of Megatron-LM: one or two letters differ, in one
  /// place. Programs around Megatron have settings of their own with similar names, so names that
  /// are farther apart do not count.
  static bool is_misspelt(std::string const& flag) {
    static std::vector<std::string> const names = flag_names();
    std::string const written = "--" + flag;
    std::string_view const near = nearest_word(written, names);
    if (near.empty()) return false;
    auto const start = std::ranges::mismatch(written, near);
    auto const end = std::mismatch(written.rbegin(), written.rend(), near.rbegin(), near.rend());
    auto const same = (start.in1 - written.begin()) + (end.first - written.rbegin());
    return static_cast<std::size_t>(same) + 2 >= std::max(written.size(), near.size());
  }

  UnknownName unknown_name_;
  ShellWords words_;
  ShellWords taken_back_;
  std::vector<Omission> unknown_;
};

/// Walks through a file, and asks what each value says. It owns the flags so far; `has_groups_`
/// says whether a value before it has switched grouped heads off.
class SettingsReader {
 public:
  explicit SettingsReader(UnknownName unknown_name) : flags_{unknown_name} {}

  void read(YamlNode const& node, std::string_view name, bool is_idle) {
    if (name == "extends" || name == "includes") return name_files(node, name);
    if (YamlNode const* const object = named_object(node)) {
      read(*object, name, is_idle);
      return;
    }
    if (node.kind == YamlNode::Kind::map) {
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        std::string_view const key = node.keys[i].text;
        bool const is_other = has_word(other_sections, key);
        bool const is_map = node.items[i].kind == YamlNode::Kind::map;
        if (is_map && is_other) {
          add_idle(key, "");
          continue;
        }
        bool const is_section = has_word(idle_sections, key);
        read(node.items[i], key, is_idle || (is_map && is_section));
      }
      return;
    }
    Setting setting{.name = name,
                    .values = {},
                    .is_list = node.kind == YamlNode::Kind::sequence,
                    .place = node.place};
    if (setting.is_list && name == "pipeline_model_parallel_layout") {
      setting.is_list = false;
      setting.values.push_back(layout_of(node));
    } else if (setting.is_list) {
      for (YamlNode const& item : node.items) {
        if (item.kind != YamlNode::Kind::scalar) {
          add_idle(name, "", is_idle ? OmittedEffect::none : OmittedEffect::unknown);
          return;
        }
        setting.values.push_back(item.text);
      }
    } else {
      setting.values.push_back(node.text);
    }
    if (name == "group_query_attention" && switch_of(node.text) == false) has_groups_ = false;
    if (settings_.environment.set(name, node.text)) return;
    bool const is_file = !setting.values.empty() && setting.values.front().ends_with(".yaml");
    // Others name a model of a hub.
    if (name == "model" || (name == "config" && is_file)) {
      if (is_file) name_files(node, name);
      return;
    }
    bool const is_named = has_word(idle_config_names, name);
    if (is_named || name.starts_with('_') || (is_idle && !is_setting_name(name))) {
      add_idle(name, setting.is_list ? "" : node.text);
    } else if (says_zero(name)) {
      last_.push_back(std::move(setting));
    } else if (name != "num_query_groups" || has_groups_) {
      flags_.add(setting);
    }
  }

  MegatronSettings result() && {
    for (Setting& setting : last_) flags_.add(std::move(setting));
    settings_.left_out.insert(settings_.left_out.end(), flags_.unknown().begin(),
                              flags_.unknown().end());
    settings_.flags = std::move(flags_).words();
    return std::move(settings_);
  }

 private:
  /// What a map stands for that only names an object of Python, such as a type:
  /// {_target_: torch.bfloat16, _call_: false}; null for any other map.
  static YamlNode const* named_object(YamlNode const& node) {
    if (node.kind != YamlNode::Kind::map) return nullptr;
    if (YamlNode const* const name = node.find("_name_")) return name;
    return node.find("_call_") == nullptr ? nullptr : node.find("_target_");
  }
  /// Whether a setting may take back the value of another one.
  static bool says_zero(std::string_view name) {
    auto const* const row = std::ranges::find(config_names, name, &ConfigName::name);
    return row != config_names.end() && row->says == ConfigName::Says::is_zero;
  }
  /// Adds the files that a value, or each value of a list, names.
  void name_files(YamlNode const& node, std::string_view key) {
    if (node.kind == YamlNode::Kind::sequence) {
      for (YamlNode const& item : node.items) name_files(item, key);
    } else if (node.kind != YamlNode::Kind::null) {
      bool const is_map = node.kind == YamlNode::Kind::map;
      settings_.files.push_back({std::string{key}, node.text, is_map, node.place});
    }
  }
  void add_idle(std::string_view name,
                std::string const& value,
                OmittedEffect effect = OmittedEffect::none) {
    settings_.left_out.push_back({.name = std::string{name}, .value = value, .effect = effect});
  }
  /// Stages as lists of words, such as [[embedding, decoder], [decoder, loss]], in the form that
  /// the flag has, Et|tL.
  static std::string layout_of(YamlNode const& stages) {
    std::string text;
    for (YamlNode const& stage : stages.items) {
      if (&stage != &stages.items.front()) text += '|';
      for (YamlNode const& module : stage.items) {
        std::string const& word = module.text;
        text += word == "embedding" ? 'E' : word == "decoder" ? 't' : word == "mtp" ? 'm' : 'L';
      }
    }
    return text;
  }

  FlagsOfSettings flags_;
  std::vector<Setting> last_;  ///< added after all others
  MegatronSettings settings_;
  bool has_groups_ = true;
};

/// What `section.name=value` says; nullopt if it changes nothing. It refers to the word.
std::optional<Setting> setting_of(ShellWord const& assignment) {
  std::string_view const text = assignment.text;
  std::size_t const equals = text.find('=');
  std::vector<std::string_view> const path = split_text(text.substr(0, equals), ".");
  std::string_view name = path.back();
  name.remove_prefix(std::min(name.find_first_not_of('+'), name.size()));
  auto const is_in = [&](std::string_view sections) {
    return std::ranges::any_of(path,
                               [&](std::string_view part) { return has_word(sections, part); });
  };
  bool const is_idle =
      has_word(idle_config_names, name) || (is_in(idle_sections) && !is_setting_name(name));
  if (is_in(other_sections) || is_idle) return std::nullopt;
  Setting setting{.name = name,
                  .values = {},
                  .is_list = false,
                  .place = {assignment.file, assignment.line, assignment.column}};
  std::string_view value = text.substr(equals + 1);
  if (value.size() > 1 && value.front() == '[' && value.back() == ']') {
    setting.is_list = true;
    for (std::string_view item : split_text(value.substr(1, value.size() - 2), ",")) {
      item.remove_prefix(std::min(item.find_first_not_of(' '), item.size()));
      setting.values.emplace_back(item);
    }
  } else {
    setting.values.emplace_back(value);
  }
  return setting;
}

bool is_name(ShellWord const& word) { return word.text.starts_with("--") || is_setting(word.text); }

}  // namespace

// Source: ms-swift, swift/megatron/arguments/megatron_args.py; verl, engine/megatron.yaml.
ShellWords defaults_of(std::string_view program) {
  if (program == "verl") return {{"--sequence-parallel", 0, 0}};
  if (program != "ms-swift") return {};
  return {{"--micro-batch-size=1", 0, 0},
          {"--global-batch-size=16", 0, 0},
          {"--expert-tensor-parallel-size=1", 0, 0}};
}

bool is_setting_name(std::string_view name) {
  std::string const flag = with_dashes(name);
  return find_flag(flag) != nullptr || negated_flag(flag) != nullptr ||
         std::ranges::find(config_names, name, &ConfigName::name) != config_names.end();
}

std::string joined_setting(std::string name, std::vector<std::string> const& values) {
  if (name.find('=') != std::string::npos) return name;
  if (values.empty()) return name + "=true";
  if (values.size() == 1) return name + "=" + values.front();
  std::string list;
  for (std::string const& value : values) list += (list.empty() ? "" : ",") + value;
  return name + "=[" + list + "]";
}

MegatronSettings read_megatron_settings(YamlNode const& root, std::string_view namer) {
  auto const format = foreign_format(root, false);
  std::string program{namer};
  if (program.empty() && format) program = format->program;
  bool const is_foreign = !program.empty() && program != "Megatron-LM";
  SettingsReader reader{is_foreign ? UnknownName::setting : UnknownName::misspelt};
  reader.read(root, "", false);
  MegatronSettings settings = std::move(reader).result();
  settings.program = std::move(program);
  return settings;
}

bool is_setting(std::string_view word) {
  std::size_t const equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0 || word.starts_with('-')) return false;
  std::string_view const name = word.substr(0, equals);
  // Words in capitals are variables of the environment.
  return std::ranges::any_of(name, [](unsigned char c) { return std::islower(c) != 0; }) &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '+';
         });
}

ShellWords flags_of_setting(ShellWord const& assignment) {
  FlagsOfSettings flags{UnknownName::flag};
  if (auto setting = setting_of(assignment)) flags.add(std::move(*setting));
  return std::move(flags).words();
}

ShellWords flags_of_command(ShellWords const& words,
                            std::string const& origin,
                            std::vector<Omission>& left_out) {
  auto const file = std::make_shared<std::string const>(origin);
  FlagsOfSettings flags{UnknownName::setting};
  for (std::size_t i = 0; i < words.size(); ++i) {
    ShellWord word = words[i];
    if (!word.file) word.file = file;
    if (word.text.starts_with("--")) {
      std::vector<std::string> values;
      auto const is_value = [&] { return i + 1 < words.size() && !is_name(words[i + 1]); };
      while (is_value()) values.push_back(words[++i].text);
      std::string name = word.text.substr(2);
      std::replace(
          name.begin(),
          name.begin() + static_cast<std::ptrdiff_t>(std::min(name.find('='), name.size())), '-',
          '_');
      word.text = joined_setting(std::move(name), values);
    }
    if (!is_setting(word.text)) continue;
    if (auto setting = setting_of(word)) flags.add(std::move(*setting));
  }
  left_out.insert(left_out.end(), flags.unknown().begin(), flags.unknown().end());
  return std::move(flags).words();
}

}  // namespace stagecraft
