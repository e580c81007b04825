#include "libsim/import/megatron/megatron_settings.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "libsim/import/megatron/megatron_config_names.hpp"
#include "libsim/import/megatron/megatron_flag_table.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

bool is_true(std::string_view text) { return text == "true" || text == "True"; }
bool is_false(std::string_view text) { return text == "false" || text == "False"; }
bool is_null(std::string_view text) {
  return text.empty() || text == "null" || text == "None" || text == "~";
}

std::string with_dashes(std::string_view name) {
  std::string flag{name};
  std::ranges::replace(flag, '_', '-');
  return flag;
}

/// A setting with the place of its value.
struct Setting {
  std::string_view name;  ///< without sections
  std::vector<std::string> values;
  bool is_list = false;
  int line = 0;
  int column = 0;
};

/// Collects the flags of settings.
class FlagsOfSettings {
 public:
  void add(Setting const& setting) {
    if (setting.values.size() == 1 && !setting.is_list && is_null(setting.values[0])) return;
    auto const renamed = std::ranges::find(config_names, setting.name, &ConfigName::name);
    if (renamed != config_names.end()) {
      add_renamed(*renamed, setting);
    } else if (is_dtype(setting)) {
      add_dtype(setting);
    } else if (setting.name == "num_query_groups") {
      // The configuration has no switch beside it.
      give("group-query-attention", setting);
      give_values("num-query-groups", setting);
    } else {
      add_named(setting);
    }
  }

  ShellWords words() && { return std::move(words_); }

 private:
  static std::string text_of(Setting const& setting) {
    if (!setting.is_list) return setting.values.empty() ? "" : setting.values.front();
    std::string text = setting.name == "window_size" ? "(" : "[";
    for (std::string const& value : setting.values) text += (text.size() > 1 ? "," : "") + value;
    return text + (setting.name == "window_size" ? ")" : "]");
  }

  void give(std::string_view flag, Setting const& setting) {
    words_.push_back({"--" + std::string{flag}, setting.line, setting.column});
  }
  void give_values(std::string_view flag, Setting const& setting) {
    MegatronFlag const* const known = find_flag(flag);
    if (known != nullptr && known->values == FlagValues::many) {
      give(flag, setting);
      for (std::string const& value : setting.values) {
        words_.push_back({value, setting.line, setting.column});
      }
    } else {
      give(std::string{flag} + "=" + text_of(setting), setting);
    }
  }

  void add_renamed(ConfigName const& entry, Setting const& setting) {
    std::string const value = text_of(setting);
    if (entry.says == ConfigName::Says::value) {
      give_values(entry.flag, setting);
    } else if (entry.says == ConfigName::Says::is_set ? is_true(value) : is_false(value)) {
      give(entry.flag, setting);
    }
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
      for (std::string const prefix : {"no-", "disable-"}) {
        if (find_flag(prefix + flag) == nullptr) continue;
        if (is_false(value)) give(prefix + flag, setting);
        return;
      }
      if (!is_false(value)) give(flag + "=" + value, setting);
    } else if (known->values == FlagValues::none) {
      if (!is_false(value)) give(known->name, setting);
    } else if (!is_false(value)) {
      give_values(known->name, setting);
    }
  }

  ShellWords words_;
};

/// Walks through a file, and asks what each value says.
class SettingsReader {
 public:
  void read(YamlNode const& node, std::string_view name, bool is_idle) {
    if (node.kind == YamlNode::Kind::map) {
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        std::string_view const key = node.keys[i].text;
        bool const is_other = std::ranges::find(other_sections, key) != other_sections.end();
        bool const is_map = node.items[i].kind == YamlNode::Kind::map;
        if (is_map && is_other) {
          add_idle(key, "");
          continue;
        }
        bool const is_section = std::ranges::find(idle_sections, key) != idle_sections.end();
        read(node.items[i], key, is_idle || (is_map && is_section));
      }
      return;
    }
    Setting setting{.name = name,
                    .values = {},
                    .is_list = node.kind == YamlNode::Kind::sequence,
                    .line = node.place.line,
                    .column = node.place.column};
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
    if (name == "group_query_attention" && is_false(node.text)) has_groups_ = false;
    bool const is_named = std::ranges::find(idle_config_names, name) != idle_config_names.end();
    if (is_named || name.starts_with('_') || (is_idle && !is_known(name))) {
      add_idle(name, setting.is_list ? "" : node.text);
    } else if (name != "num_query_groups" || has_groups_) {
      flags_.add(setting);
    }
  }

  MegatronSettings result() && {
    settings_.flags = std::move(flags_).words();
    return std::move(settings_);
  }

 private:
  static bool is_known(std::string_view name) {
    std::string const flag = with_dashes(name);
    return find_flag(flag) != nullptr || find_flag("no-" + flag) != nullptr ||
           find_flag("disable-" + flag) != nullptr ||
           std::ranges::find(config_names, name, &ConfigName::name) != config_names.end();
  }
  void add_idle(std::string_view name,
                std::string const& value,
                OmittedEffect effect = OmittedEffect::none) {
    settings_.idle.push_back({.name = std::string{name}, .value = value, .effect = effect});
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
  MegatronSettings settings_;
  bool has_groups_ = true;
};

/// Whose run file it is.
std::string program_of(YamlNode const& root) {
  auto const has = [&](std::string_view key) { return root.find(key) != nullptr; };
  if (has("modules") && (has("work_group") || has("exp_name"))) return "Primus";
  if (has("actor_rollout_ref")) return "verl";
  YamlNode const* const model = root.find("model");
  bool const has_model_map = model != nullptr && model->kind == YamlNode::Kind::map;
  if (has_model_map && (has("train") || has("ddp"))) return "Megatron-Bridge";
  if (has("tuner_type") || has("train_type") || has("load_safetensors")) return "ms-swift";
  if (has("language_model") && has("model_parallel")) return "Megatron-LM";
  return {};
}

}  // namespace

MegatronSettings read_megatron_settings(YamlNode const& root) {
  SettingsReader reader;
  reader.read(root, "", false);
  MegatronSettings settings = std::move(reader).result();
  settings.program = program_of(root);
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
  std::string_view const text = assignment.text;
  std::size_t const equals = text.find('=');
  std::vector<std::string_view> const path = split_text(text.substr(0, equals), ".");
  bool const is_of_others = std::ranges::any_of(path, [](std::string_view part) {
    return std::ranges::find(other_sections, part) != other_sections.end();
  });
  std::string_view name = path.back();
  name.remove_prefix(std::min(name.find_first_not_of('+'), name.size()));
  if (is_of_others || std::ranges::find(idle_config_names, name) != idle_config_names.end()) {
    return {};
  }
  Setting setting{.name = name,
                  .values = {},
                  .is_list = false,
                  .line = assignment.line,
                  .column = assignment.column};
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
  FlagsOfSettings flags;
  flags.add(setting);
  return std::move(flags).words();
}

}  // namespace stagecraft
