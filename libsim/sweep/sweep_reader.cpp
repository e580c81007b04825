#include "libsim/sweep/sweep_reader.hpp"

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "libsim/config/override.hpp"
#include "libsim/config/section_reader.hpp"
#include "libsim/host/sha256.hpp"
#include "libsim/run/file_kind.hpp"
#include "libsim/sweep/node_text.hpp"
#include "libsim/sweep/sweep_columns.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft {
namespace {

/// Reads the sections of a sweep file one by one; each reports its own problems to `diagnostics` and
/// is read whole whatever the others have. Files that it names are relative to `folder`.
class SweepFileReader {
 public:
  SweepFileReader(YamlNode const& root, std::filesystem::path folder, Diagnostics& diagnostics)
      : root_{root}, folder_{std::move(folder)}, diagnostics_{diagnostics} {}

  /// The base; nullopt if it could not be read.
  std::optional<RunVariants> read_base() {
    std::string const accepted = "the name of a run file, or its keys";
    YamlNode const* const base = root_.find("base");
    Diagnostics problems;
    std::optional<RunVariants> runs;
    if (base == nullptr) {
      if (diagnostics_.is_sound("base")) report(root_, "base", "", accepted);
    } else if (base->kind == YamlNode::Kind::map) {
      runs.emplace(*base, folder_, problems);
    } else if (base->kind != YamlNode::Kind::scalar || base->text.empty()) {
      report(*base, "base", ConfigNode{*base, "base", diagnostics_}.found(), accepted);
    } else {
      std::filesystem::path const file = folder_ / base->text;
      auto content = parse_yaml_file(file, base->place, "base", problems);
      if (content) runs.emplace(std::move(*content), file.parent_path(), problems);
    }
    for (Problem const& problem : problems.problems()) diagnostics_.add(problem);
    return problems.problems().empty() ? std::move(runs) : std::nullopt;
  }

  std::vector<SweepAxis> read_axes() {
    std::size_t const problems_before = diagnostics_.problems().size();
    if (YamlNode const* const cases = map_at("cases", "groups of cases")) {
      for (std::size_t i = 0; i < cases->items.size(); ++i) {
        read_group(cases->keys[i], cases->items[i]);
      }
    }
    if (YamlNode const* const values = map_at("values", "keys, each with a list of values")) {
      for (std::size_t i = 0; i < values->items.size(); ++i) {
        read_values(values->keys[i], values->items[i]);
      }
    }
    if (axes_.empty() && knows_all_axes() && diagnostics_.problems().size() == problems_before) {
      report(root_, "values", "", "values or cases: what is to vary");
    }
    return std::move(axes_);
  }

  /// Whether the names of all axes are known: no section of axes is misspelt or not a map.
  bool knows_all_axes() const {
    auto const is_known = [&](char const* section) {
      YamlNode const* const node = root_.find(section);
      return node == nullptr ? diagnostics_.is_sound(section) : node->kind == YamlNode::Kind::map;
    };
    return is_known("cases") && is_known("values");
  }

  std::vector<Condition> read_conditions() {
    std::vector<Condition> conditions;
    YamlNode const* const where = root_.find("where");
    if (where == nullptr) return conditions;
    if (where->kind != YamlNode::Kind::sequence) {
      report(*where, "where", ConfigNode{*where, "where", diagnostics_}.found(),
             "a list of conditions, such as [parallel.tensor * parallel.pipeline <= 64]");
      return conditions;
    }
    std::vector<std::string> undotted{"schedule", "recompute", "layout"};
    for (char const* const section : {"cases", "values"}) {
      YamlNode const* const names = root_.find(section);
      if (names == nullptr || names->kind != YamlNode::Kind::map) continue;
      for (YamlNode const& name : names->keys) undotted.push_back(name.text);
    }
    for (YamlNode const& item : where->items) {
      if (item.kind != YamlNode::Kind::scalar) {
        report(item, "where", ConfigNode{item, "where", diagnostics_}.found(),
               "a condition, such as parallel.tensor <= 8");
        continue;
      }
      auto condition = Condition::parse(item.text, item.place, undotted, diagnostics_);
      if (condition) conditions.push_back(std::move(*condition));
    }
    return conditions;
  }

 private:
  void report(YamlNode const& at, std::string key, std::string found, std::string accepted) {
    diagnostics_.add({at.place, std::move(key), std::move(found), std::move(accepted), true});
  }

  YamlNode const* map_at(char const* key, char const* of_what) {
    YamlNode const* const node = root_.find(key);
    if (node == nullptr) return nullptr;
    if (node->kind == YamlNode::Kind::map) return node;
    report(*node, key, ConfigNode{*node, key, diagnostics_}.found(),
           std::string{"a map of "} + of_what);
    return nullptr;
  }

  /// Requires that names of columns differ, and that a key is set once.
  bool is_new_name(YamlNode const& key, std::string const& section) {
    bool const is_result = is_result_column(key.text);
    if (!is_result && names_.insert(key.text).second) return true;
    report(key, section, "'" + printable(key.text) + "'",
           is_result ? "a name that no column of results has" : "each key once");
    return false;
  }

  /// Refuses an order in which a later setting of `model` would undo an earlier one of
  /// `model.sequence`.
  void require_order(YamlNode const& key, std::string const& section) {
    for (std::string const& earlier : names_) {
      if (earlier.starts_with(key.text + ".")) {
        report(key, section,
               "'" + printable(key.text) + "' after '" + earlier + "', which it undoes",
               "it first");
      }
    }
  }

  void read_group(YamlNode const& name, YamlNode const& cases) {
    bool const is_word =
        !name.text.empty() && std::all_of(name.text.begin(), name.text.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
        });
    bool const is_section = std::find(training_sections.begin(), training_sections.end(),
                                      name.text) != training_sections.end() ||
                            name.text == "system" || name.text == "software";
    if (!is_word || is_section) {
      report(name, "cases", "'" + printable(name.text) + "'",
             "a name of letters, digits and _ that is not a section of a run file");
      return;
    }
    if (!is_new_name(name, "cases")) return;
    if (cases.kind != YamlNode::Kind::map || cases.items.empty()) {
      report(cases, "cases." + name.text, ConfigNode{cases, "", diagnostics_}.found(),
             "a map of cases, each with a map of keys");
      return;
    }
    SweepAxis axis{name.text, true, {}};
    std::set<std::string> keys;
    for (std::size_t i = 0; i < cases.items.size(); ++i) {
      YamlNode const& settings = cases.items[i];
      std::string const section = "cases." + name.text + "." + printable(cases.keys[i].text);
      SweepEntry entry{cases.keys[i].text, cases.keys[i].place, {}, {}};
      if (settings.kind != YamlNode::Kind::map) {
        report(settings, section, ConfigNode{settings, "", diagnostics_}.found(),
               "a map of keys, {} for the base as it is");
        continue;
      }
      for (std::size_t k = 0; k < settings.items.size(); ++k) {
        if (!read_key(settings.keys[k], section)) continue;
        if (keys.insert(settings.keys[k].text).second && is_new_name(settings.keys[k], section)) {
          require_order(settings.keys[k], section);
        }
        add_setting(entry, settings.keys[k], settings.items[k]);
      }
      axis.entries.push_back(std::move(entry));
    }
    if (!axis.entries.empty()) axes_.push_back(std::move(axis));
  }

  void read_values(YamlNode const& key, YamlNode const& values) {
    if (!read_key(key, "values") || !is_new_name(key, "values")) return;
    require_order(key, "values");
    if (values.kind != YamlNode::Kind::sequence || values.items.empty()) {
      report(values, key.text, ConfigNode{values, "", diagnostics_}.found(), "a list of values");
      return;
    }
    SweepAxis axis{key.text, false, {}};
    std::set<std::string> texts;
    for (YamlNode const& value : values.items) {
      SweepEntry entry;
      add_setting(entry, key, value);
      entry.label = entry.written.front();
      entry.place = value.place;
      if (!texts.insert(exact_text(value)).second) {
        report(value, key.text, "'" + printable(entry.label) + "' a second time",
               "each value once");
      }
      axis.entries.push_back(std::move(entry));
    }
    axes_.push_back(std::move(axis));
  }

  bool read_key(YamlNode const& key, std::string const& section) {
    if (is_dotted_key(key.text) && key.text.find('/') == std::string::npos) return true;
    report(key, section, "'" + printable(key.text) + "'",
           "a dotted key of a run file, such as parallel.tensor");
    return false;
  }

  void add_setting(SweepEntry& entry, YamlNode const& key, YamlNode const& value) {
    constexpr std::size_t longest = 400;  // a column of texts is as wide as its longest text
    std::string written = line_text(value);
    if (written.size() > longest) written = written.substr(0, longest) + "...";
    entry.written.push_back(std::move(written));
    Setting setting{key.text, value, key.place};
    open_setting(setting, folder_, diagnostics_);
    entry.settings.push_back(std::move(setting));
  }

  YamlNode const& root_;
  std::filesystem::path folder_;
  Diagnostics& diagnostics_;
  std::vector<SweepAxis> axes_;
  std::set<std::string> names_;
};

std::int64_t count_points(std::vector<SweepAxis> const& axes,
                          YamlNode const& root,
                          Diagnostics& diagnostics) {
  std::int64_t points = 1;
  for (SweepAxis const& axis : axes) {
    auto const entries = static_cast<std::int64_t>(axis.entries.size());
    if (entries == 0) return 0;
    if (points > std::numeric_limits<std::int64_t>::max() / entries) {
      diagnostics.add({root.place, "", "a cross product of more than 9e18 points", "fewer"});
      return 0;
    }
    points *= entries;
  }
  return points;
}

std::string fingerprint_of(Sweep const& sweep) {
  Sha256 digest;
  digest.add("stagecraft sweep 1\n" + exact_text(sweep.runs.base()) + "\n");
  for (SweepAxis const& axis : sweep.axes) {
    digest.add((axis.is_group ? "group " : "key ") + axis.name + "\n");
    for (SweepEntry const& entry : axis.entries) {
      digest.add("entry " + std::to_string(entry.label.size()) + " " + entry.label + "\n");
      for (std::size_t i = 0; i < entry.settings.size(); ++i) {
        digest.add(entry.settings[i].key + " " + std::to_string(entry.written[i].size()) + " " +
                   entry.written[i] + " " + exact_text(entry.settings[i].value) + "\n");
      }
    }
  }
  for (Condition const& condition : sweep.filter.conditions()) {
    digest.add("where " + condition.text() + "\n");
  }
  return digest.hexadecimal();
}

/// Reports unknown keys and values that their key does not accept, by reading each entry once.
void check_entries(Sweep const& sweep, Diagnostics& diagnostics) {
  std::set<std::string> seen;
  std::vector<std::size_t> entries(sweep.axes.size(), 0);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    for (std::size_t k = 0; k < sweep.axes[i].entries.size(); ++k) {
      entries[i] = k;
      try {
        static_cast<void>(run_of(sweep, entries));
      } catch (ConfigError const& error) {
        for (Problem const& problem : error.problems()) {
          if (problem.stands_alone && seen.insert(to_string(problem)).second) {
            diagnostics.add(problem);
          }
        }
      }
    }
    entries[i] = 0;
  }
}

Sweep read_sweep(std::optional<YamlNode> const& root,
                 std::filesystem::path const& path,
                 Diagnostics diagnostics) {
  diagnostics.throw_if_any();
  SectionReader sections{ConfigNode{*root, "", diagnostics}};
  if (root->kind != YamlNode::Kind::map) diagnostics.throw_if_any();
  if (auto problem = wrong_kind(*root, FileKind::sweep, "")) {
    diagnostics.add(std::move(*problem));
    diagnostics.throw_if_any();
  }
  for (char const* const key : {"base", "cases", "values", "where"}) sections.take(key);
  sections.finish();
  SweepFileReader reader{*root, path.parent_path(), diagnostics};
  std::optional<RunVariants> runs = reader.read_base();
  std::vector<SweepAxis> axes = reader.read_axes();
  std::vector<Condition> conditions = reader.read_conditions();
  if (!runs) diagnostics.throw_if_any();  // without a base the keys cannot be checked
  Sweep sweep{path.string(), exact_text(*root), std::move(*runs), std::move(axes), {}, 0, {}};
  sweep.points = count_points(sweep.axes, *root, diagnostics);
  check_entries(sweep, diagnostics);
  if (reader.knows_all_axes()) {
    sweep.filter = SweepFilter{std::move(conditions), sweep.axes, sweep.runs, diagnostics};
  }
  diagnostics.throw_if_any();
  sweep.fingerprint = fingerprint_of(sweep);
  return sweep;
}

}  // namespace

Sweep load_sweep(std::filesystem::path const& path) {
  Diagnostics diagnostics;
  auto const root = parse_yaml_file(path, Place{}, "", diagnostics);
  return read_sweep(root, path, std::move(diagnostics));
}

Sweep parse_sweep(std::string_view text, std::filesystem::path const& origin) {
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, origin.string(), diagnostics);
  return read_sweep(root, origin, std::move(diagnostics));
}

}  // namespace stagecraft
