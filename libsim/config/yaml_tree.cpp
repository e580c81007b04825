#include "libsim/config/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include "libsim/config/opening.hpp"
#include "libsim/config/text_encoding.hpp"

namespace stagecraft {
namespace {

/// Thrown by the builder through yaml-cpp to stop a parse whose problem has been noted.
struct StopParsing {};

/// Builds the tree from yaml-cpp's events. Going through events rather than YAML::Node keeps
/// duplicate keys and the places of keys, and lets nesting be refused before the parser recurses
/// into it.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::shared_ptr<std::string const> origin, Diagnostics& diagnostics)
      : origin_{std::move(origin)}, diagnostics_{diagnostics} {}

  std::optional<YamlNode>& root() { return root_; }

  void OnDocumentStart(YAML::Mark const& mark) override {
    if (++documents_ > 1) {
      refuse(mark, "a second document", "one YAML document a file");
      throw StopParsing{};
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(YAML::Mark const& mark, YAML::anchor_t anchor) override {
    add(node_at(mark, YamlNode::Kind::null), anchor);
  }

  void OnAlias(YAML::Mark const& mark, YAML::anchor_t anchor) override {
    auto const named = anchored_.find(anchor);
    if (named == anchored_.end()) {
      refuse(mark, "an alias inside the value that it stands for", "an alias of an earlier value");
      throw StopParsing{};
    }
    copied_ += count_values(named->second);
    if (copied_ > most_aliased_values) {
      refuse(mark,
             "aliases that stand for more than " + std::to_string(most_aliased_values) + " values",
             "fewer aliases");
      throw StopParsing{};
    }
    if (frames_.size() + depth_of(named->second) > deepest_yaml_nesting) refuse_nesting(mark);
    add(named->second, 0);
  }

  void OnScalar(YAML::Mark const& mark,
                std::string const& tag,
                YAML::anchor_t anchor,
                std::string const& value) override {
    refuse_tag(mark, tag);
    YamlNode node = node_at(mark, YamlNode::Kind::scalar);
    node.text = value;
    node.quoted = tag == "!";
    add(std::move(node), anchor);
  }

  void OnSequenceStart(YAML::Mark const& mark,
                       std::string const& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    static_cast<void>(style);
    open(mark, tag, anchor, YamlNode::Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(YAML::Mark const& mark,
                  std::string const& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    static_cast<void>(style);
    open(mark, tag, anchor, YamlNode::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    std::optional<YamlNode> key;           ///< of the entry whose value comes next
    std::map<std::string, Place> earlier;  ///< keys so far
    YAML::anchor_t anchor = 0;             ///< that names the value; 0: none
    std::vector<YamlNode> merged{};        ///< values of `<<`
  };

  YamlNode node_at(YAML::Mark const& mark, YamlNode::Kind kind) const {
    YamlNode node;
    node.kind = kind;
    node.place = Place{origin_, mark.line + 1, mark.column + 1};
    return node;
  }

  void refuse(YAML::Mark const& mark, std::string found, std::string accepted) {
    diagnostics_.add(
        {node_at(mark, YamlNode::Kind::null).place, path(), std::move(found), std::move(accepted)});
  }

  [[noreturn]] void refuse_nesting(YAML::Mark const& mark) {
    refuse(mark, "more nesting",
           "at most " + std::to_string(deepest_yaml_nesting) + " maps and lists in each other");
    throw StopParsing{};
  }

  static std::size_t count_values(YamlNode const& node) {
    std::size_t count = 1;
    for (YamlNode const& item : node.items) count += count_values(item);
    return count;
  }

  static std::size_t depth_of(YamlNode const& node) {
    bool const is_scalar = node.kind == YamlNode::Kind::scalar || node.kind == YamlNode::Kind::null;
    std::size_t deepest = 0;
    for (YamlNode const& item : node.items) deepest = std::max(deepest, depth_of(item));
    return deepest + (is_scalar ? 0 : 1);
  }

  void refuse_tag(YAML::Mark const& mark, std::string const& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, "the tag '" + printable(tag) + "'", "values without tags");
    }
  }

  /// Dotted path of the value that comes next.
  std::string path() const {
    std::string text;
    for (Frame const& frame : frames_) {
      if (frame.node.kind == YamlNode::Kind::sequence) {
        text += "[" + std::to_string(frame.node.items.size()) + "]";
      } else if (frame.key) {
        if (!text.empty()) text += ".";
        text += printable(frame.key->text);
      }
    }
    return text;
  }

  void open(YAML::Mark const& mark,
            std::string const& tag,
            YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    refuse_tag(mark, tag);
    if (frames_.size() == deepest_yaml_nesting) refuse_nesting(mark);
    frames_.push_back(Frame{node_at(mark, kind), std::nullopt, {}, anchor});
  }

  void close() {
    for (YamlNode const& merged : frames_.back().merged) merge(merged);
    YamlNode node = std::move(frames_.back().node);
    YAML::anchor_t const anchor = frames_.back().anchor;
    frames_.pop_back();
    add(std::move(node), anchor);
  }

  /// Adds the entries of the map `other` that the innermost map does not have.
  void merge(YamlNode const& other) {
    YamlNode& node = frames_.back().node;
    if (other.kind == YamlNode::Kind::sequence) {
      for (YamlNode const& item : other.items) merge(item);
      return;
    }
    if (other.kind != YamlNode::Kind::map) {
      diagnostics_.add({other.place, path(), "a merge ('<<') of a value that is not a map",
                        "an alias of a map, such as <<: *name"});
      return;
    }
    for (std::size_t i = 0; i < other.items.size(); ++i) {
      if (node.find(other.keys[i].text) == nullptr) node.add_entry(other.keys[i], other.items[i]);
    }
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    if (anchor != 0) anchored_[anchor] = node;
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == YamlNode::Kind::sequence) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.key) {
      add_key(frame, std::move(node));
    } else if (frame.key->text == "<<" && !frame.key->quoted) {
      frame.merged.push_back(std::move(node));
      frame.key.reset();
    } else {
      frame.node.add_entry(std::move(*frame.key), std::move(node));
      frame.key.reset();
    }
  }

  void add_key(Frame& frame, YamlNode key) {
    if (key.kind != YamlNode::Kind::scalar) {
      diagnostics_.add({key.place, path(), "a key that is not text", "keys such as 'layers'"});
      throw StopParsing{};
    }
    auto const [earlier, is_new] = frame.earlier.emplace(key.text, key.place);
    Place const place = key.place;
    frame.key = std::move(key);
    if (!is_new) {
      diagnostics_.add({place, path(), "the key a second time",
                        "each key once (it is also at " + to_string(earlier->second) + ")"});
    }
  }

  std::shared_ptr<std::string const> origin_;
  Diagnostics& diagnostics_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, YamlNode> anchored_;  ///< values with an anchor
  std::size_t copied_ = 0;                       ///< values that aliases have copied
  std::optional<YamlNode> root_;
  int documents_ = 0;
};

/// The first tab among the blanks at the start of a line that goes on; nullopt if there is none.
std::optional<Place> first_indenting_tab(std::string_view text) {
  Place place{nullptr, 1, 1};
  bool is_indentation = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char const c = text[i];
    if (c == '\n') {
      ++place.line;
      place.column = 1;
      is_indentation = true;
      continue;
    }
    std::size_t const after = text.find_first_not_of(" \t\r", i);
    bool const is_blank_line = after == std::string_view::npos || text[after] == '\n';
    if (is_indentation && c == '\t' && !is_blank_line) return place;
    is_indentation = is_indentation && c == ' ';
    ++place.column;
  }
  return std::nullopt;
}

void refuse_size(std::shared_ptr<std::string const> const& origin, Diagnostics& diagnostics) {
  diagnostics.add({Place{origin}, "", "more than 1 MiB", "a configuration of at most 1 MiB"});
}

}  // namespace

YamlNode const* YamlNode::find(std::string_view key) const {
  auto const found = std::find_if(keys.begin(), keys.end(),
                                  [&](YamlNode const& name) { return name.text == key; });
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

YamlNode* YamlNode::find(std::string_view key) {
  return const_cast<YamlNode*>(std::as_const(*this).find(key));
}

YamlNode& YamlNode::add_entry(YamlNode key, YamlNode value) {
  keys.push_back(std::move(key));
  return items.emplace_back(std::move(value));
}

std::optional<YamlNode> parse_yaml(std::string_view text,
                                   std::string const& origin,
                                   Diagnostics& diagnostics) {
  auto const name = std::make_shared<std::string const>(origin);
  if (text.size() > largest_yaml_file) {
    refuse_size(name, diagnostics);
    return std::nullopt;
  }
  if (text.starts_with("#!")) {
    diagnostics.add({Place{name, 1, 1}, "", "a script ('#!')", "a YAML file"});
    return std::nullopt;
  }
  if (auto const bad = find_bad_text(text)) {
    diagnostics.add({Place{name, bad->line, bad->column}, "", bad->found, "text in UTF-8"});
    return std::nullopt;
  }
  TreeBuilder builder{name, diagnostics};
  try {
    std::istringstream stream{std::string{text}};
    YAML::Parser parser{stream};
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (StopParsing const&) {
    return std::nullopt;
  } catch (YAML::Exception const& error) {
    if (auto const tab = first_indenting_tab(text)) {
      diagnostics.add({Place{name, tab->line, tab->column}, "", "a tab in the indentation",
                       "spaces: YAML does not indent with tabs"});
    } else {
      diagnostics.add({Place{name, error.mark.line + 1, error.mark.column + 1}, "",
                       "a YAML syntax error (" + error.msg + ")",
                       error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW
                           ? "in braces, a space after the colon of each key, a comma between "
                             "entries, and a closing brace"
                           : "well-formed YAML"});
    }
    return std::nullopt;
  }
  if (!builder.root()) {
    diagnostics.add({Place{name, 1, 1}, "", "an empty file", "a YAML map"});
  }
  return std::move(builder.root());
}

std::optional<YamlNode> parse_yaml_file(std::filesystem::path const& path,
                                        Place const& referrer,
                                        std::string const& key,
                                        Diagnostics& diagnostics) {
  auto const origin = std::make_shared<std::string const>(path.string());
  Place const place = referrer.origin ? referrer : Place{origin};
  std::string const name = "'" + printable(path.string()) + "'";
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    diagnostics.add({place, key, name + ", a folder", "a YAML file", true});
    return std::nullopt;
  }
  // A pipe is fine where the user names it, but a file must not make the program wait for one.
  if (referrer.origin && std::filesystem::exists(path, ignored) &&
      !std::filesystem::is_regular_file(path, ignored)) {
    diagnostics.add({place, key, name + ", which is not a regular file", "a YAML file", true});
    return std::nullopt;
  }
  errno = 0;
  std::ifstream stream{path, std::ios::binary};
  if (!stream) {
    diagnostics.add({place, key, name + ", which cannot be opened" + why_not_opened(path, errno),
                     "a readable YAML file", true});
    return std::nullopt;
  }
  std::string text(largest_yaml_file + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (stream.bad()) {
    diagnostics.add({place, key, name + ", which cannot be read", "a readable YAML file", true});
    return std::nullopt;
  }
  std::optional<YamlNode> root = parse_yaml(text, *origin, diagnostics);
  if (!root) diagnostics.mark_unsound(key);
  return root;
}

}  // namespace stagecraft
