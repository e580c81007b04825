#include "libsim/config/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

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
    refuse_anchor(mark, anchor);
    add(node_at(mark, YamlNode::Kind::null));
  }

  void OnAlias(YAML::Mark const& mark, YAML::anchor_t anchor) override {
    refuse(mark, "an alias", "plain values; aliases are not supported");
    static_cast<void>(anchor);
    throw StopParsing{};
  }

  void OnScalar(YAML::Mark const& mark,
                std::string const& tag,
                YAML::anchor_t anchor,
                std::string const& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    YamlNode node = node_at(mark, YamlNode::Kind::scalar);
    node.text = value;
    node.quoted = tag == "!";
    add(std::move(node));
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

  void refuse_anchor(YAML::Mark const& mark, YAML::anchor_t anchor) {
    if (anchor != 0) refuse(mark, "an anchor", "plain values; anchors are not supported");
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
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (frames_.size() == deepest_yaml_nesting) {
      refuse(mark, "more nesting",
             "at most " + std::to_string(deepest_yaml_nesting) + " maps and lists in each other");
      throw StopParsing{};
    }
    frames_.push_back(Frame{node_at(mark, kind), std::nullopt, {}});
  }

  void close() {
    YamlNode node = std::move(frames_.back().node);
    frames_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == YamlNode::Kind::sequence) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.key) {
      add_key(frame, std::move(node));
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
  std::optional<YamlNode> root_;
  int documents_ = 0;
};

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
    diagnostics.add({Place{name, error.mark.line + 1, error.mark.column + 1}, "",
                     "a YAML syntax error (" + error.msg + ")", "well-formed YAML"});
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
  std::ifstream stream{path, std::ios::binary};
  if (!stream) {
    diagnostics.add({place, key, name + ", which cannot be opened", "a readable YAML file", true});
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
