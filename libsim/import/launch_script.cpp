#include "libsim/import/launch_script.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <utility>

#include "libsim/import/shell_condition.hpp"

namespace stagecraft {
namespace {

using Tokens = std::vector<ShellToken>;
using Words = std::vector<ShellWord>;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool has_flag(Words const& words) {
  return std::any_of(words.begin(), words.end(), [](ShellWord const& word) {
    return word.text == "--num-layers" || word.text == "--encoder-num-layers" ||
           word.text.rfind("--num-layers=", 0) == 0;
  });
}

/// Words of which some are whole commands in quotes (`bash -c "torchrun ..."`) cut again.
Words cut_again(Words const& words, ShellVariables const& variables) {
  Words result;
  for (ShellWord const& word : words) {
    if (word.text.find("--num-layers") == std::string::npos ||
        word.text.find_first_of(" \t\n") == std::string::npos) {
      result.push_back(word);
      continue;
    }
    std::vector<std::string> ignored;
    for (ShellToken const& token : shell_tokens(word.text, ignored)) {
      if (token.kind != ShellToken::Kind::word) continue;
      for (ShellWord inner : expand(token.word, variables)) {
        inner.line = word.line;
        inner.column = word.column;
        result.push_back(std::move(inner));
      }
    }
  }
  return result;
}

std::optional<std::int64_t> count_of(std::string_view text) {
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool const is_count = error == std::errc{} && end == text.data() + text.size() && value > 0;
  return is_count ? std::optional{value} : std::nullopt;
}

/// The number after one of `names`, as `--name N` or `--name=N`.
std::optional<std::int64_t> option_value(Words const& words,
                                         std::initializer_list<std::string_view> names) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::string_view const name : names) {
      std::string_view const text = words[i].text;
      if (text == name && i + 1 < words.size()) {
        if (auto const count = count_of(words[i + 1].text)) return count;
      }
      if (text.rfind(name, 0) == 0 && text.size() > name.size() && text[name.size()] == '=') {
        return count_of(text.substr(name.size() + 1));
      }
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> product(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  std::int64_t value = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &value)) return std::nullopt;
  return value;
}

/// Processes that the launcher starts.
std::optional<std::int64_t> launched(Words const& words) {
  auto const per_node = option_value(words, {"--nproc_per_node", "--nproc-per-node", "--num_gpus"});
  auto const nodes = option_value(words, {"--nnodes", "--num_nodes"});
  if (per_node) return product(per_node, nodes ? nodes : std::optional<std::int64_t>{1});
  return option_value(words, {"-np", "--ntasks"});
}

/// Nodes and processes a node of the `#SBATCH` lines.
struct Allocation {
  std::optional<std::int64_t> nodes, per_node;
};

Allocation allocation_of(std::vector<std::string> const& sbatch) {
  Words words;
  for (std::string const& line : sbatch) {
    for (ShellWord const& word : expand({line, 0, 0}, {})) {
      for (ShellWord const& part : expand({word.text, 0, 0}, {})) words.push_back(part);
    }
    std::vector<std::string> ignored;
    for (ShellToken const& token : shell_tokens(line, ignored)) words.push_back(token.word);
  }
  Allocation allocation;
  allocation.nodes = option_value(words, {"--nodes", "-N"});
  allocation.per_node = option_value(words, {"--gpus-per-node"});
  for (ShellWord const& word : words) {
    if (word.text.rfind("--gres=gpu", 0) != 0) continue;
    allocation.per_node = count_of(std::string_view{word.text}.substr(word.text.rfind(':') + 1));
  }
  if (!allocation.per_node) allocation.per_node = option_value(words, {"--ntasks-per-node"});
  return allocation;
}

/// Follows a script statement by statement.
class Interpreter {
 public:
  Interpreter(Tokens tokens, ShellVariables variables)
      : tokens_{std::move(tokens)}, variables_{std::move(variables)} {}

  void run() {
    while (at_ < tokens_.size()) {
      Tokens const statement = next_statement();
      if (!statement.empty()) follow(statement);
    }
  }

  Words const& command() const { return command_; }
  ShellVariables const& variables() const { return variables_; }
  std::vector<std::string>& notes() { return notes_; }
  /// The value last given to a variable that holds flags, for scripts that only set it.
  Words const& flags_of_variable() const { return flags_of_variable_; }

 private:
  /// An `if` that is open: whether its present branch runs, and whether one has run or is unknown.
  struct Branch {
    bool runs = false;
    bool is_settled = false;
  };

  bool is_running() const {
    return std::all_of(branches_.begin(), branches_.end(), [](Branch const& b) { return b.runs; });
  }

  /// Tokens up to the end of a statement.
  Tokens next_statement() {
    Tokens statement;
    while (at_ < tokens_.size()) {
      ShellToken const& token = tokens_[at_++];
      if (token.kind == ShellToken::Kind::newline) break;
      std::string const& text = token.word.text;
      if (token.kind == ShellToken::Kind::operation) {
        if (text == ">" || text == "<" || text == "<<" || text == "(" || text == ")") {
          statement.push_back(token);
          continue;
        }
        break;
      }
      statement.push_back(token);
      bool const ends = text == "then" || text == "else" || text == "do" || text == "{";
      if (ends && statement.size() == 1) break;
    }
    return statement;
  }

  void note(ShellToken const& token, std::string const& text) {
    if (is_running()) notes_.push_back("line " + std::to_string(token.word.line) + ": " + text);
  }

  void follow(Tokens const& statement) {
    ShellToken const& first = statement.front();
    std::string const& word = first.word.text;
    bool const is_word = first.kind == ShellToken::Kind::word;
    if (is_word && word == "if") {
      begin_if(statement);
    } else if (is_word && (word == "elif" || word == "else")) {
      next_branch(statement, word == "else");
    } else if (is_word && word == "fi") {
      if (!branches_.empty()) branches_.pop_back();
    } else if (is_word && (word == "for" || word == "while" || word == "until")) {
      note(first, "a loop is not followed");
      skip_block("do", "done", count(statement, "do") - count(statement, "done"));
    } else if (is_word && word == "case") {
      note(first, "a case is not followed");
      skip_block("case", "esac", 1 - count(statement, "esac"));
    } else if (is_function(statement)) {
      note(first, "a function is not followed");
      skip_block("{", "}", count(statement, "{") - count(statement, "}"));
    } else if (is_running()) {
      execute(statement);
    }
  }

  static int count(Tokens const& statement, std::string_view word) {
    return static_cast<int>(std::count_if(statement.begin(), statement.end(), [&](auto const& t) {
      return t.kind == ShellToken::Kind::word && t.word.text == word;
    }));
  }

  static bool is_function(Tokens const& statement) {
    return statement.front().word.text == "function" ||
           (statement.size() >= 3 && statement[1].word.text == "(" &&
            statement[2].word.text == ")");
  }

  /// Past the block whose opening and closing words nest; `depth` of them are open.
  void skip_block(std::string_view open, std::string_view close, int depth) {
    bool has_begun = depth > 0;
    while (at_ < tokens_.size() && (depth > 0 || !has_begun)) {
      ShellToken const& token = tokens_[at_++];
      if (token.kind != ShellToken::Kind::word) continue;
      if (token.word.text == open) ++depth, has_begun = true;
      if (token.word.text == close) --depth;
    }
  }

  /// The condition after `if`, over all statements up to `then`.
  Tokens condition(Tokens const& statement) {
    Tokens all(statement.begin() + 1, statement.end());
    // The separator that ended the statement counts where it joins tests.
    while (at_ <= tokens_.size() && at_ > 0) {
      ShellToken const& separator = tokens_[at_ - 1];
      if (separator.kind == ShellToken::Kind::operation) all.push_back(separator);
      if (at_ == tokens_.size()) break;
      Tokens const next = next_statement();
      if (!next.empty() && next.front().word.text == "then") {
        // `then` may stand before the first statement of the branch.
        break;
      }
      all.insert(all.end(), next.begin(), next.end());
    }
    while (!all.empty() && all.back().word.text == ";") all.pop_back();
    return all;
  }

  void begin_if(Tokens const& statement) {
    bool const counts = is_running();
    auto const truth = holds(condition(statement), variables_);
    if (counts && !truth) {
      note(statement.front(), "a condition that the script does not settle; its branch is skipped");
    }
    branches_.push_back({truth.value_or(false), truth.value_or(false)});
  }

  void next_branch(Tokens const& statement, bool is_else) {
    std::optional<bool> truth = true;
    if (!is_else) truth = holds(condition(statement), variables_);
    if (branches_.empty()) return;
    Branch& branch = branches_.back();
    branch.runs = !branch.is_settled && truth.value_or(false);
    branch.is_settled = branch.is_settled || branch.runs;
  }

  void execute(Tokens const& statement) {
    auto token = statement.begin();
    while (token != statement.end() && token->kind == ShellToken::Kind::word &&
           (token->word.text == "export" || token->word.text == "local" ||
            token->word.text == "declare" || token->word.text == "readonly" ||
            token->word.text == "then" || token->word.text == "do" || token->word.text == "{" ||
            token->word.text == "time" || token->word.text == "exec")) {
      ++token;
    }
    while (token != statement.end() && assign(*token)) ++token;
    if (token == statement.end()) return;
    if (token->word.text == "source" || token->word.text == ".") {
      note(*token, "another script is read, which is not followed");
      return;
    }
    Words words;
    for (; token != statement.end(); ++token) {
      if (token->kind == ShellToken::Kind::operation) {
        if (token->word.text == ">" || token->word.text == "<") {
          if (token + 1 != statement.end()) ++token;
        }
        continue;
      }
      for (ShellWord const& word : expand(token->word, variables_)) words.push_back(word);
    }
    words = cut_again(words, variables_);
    if (words.empty() || words.front().text == "echo" || words.front().text == "printf") return;
    if (has_flag(words)) command_ = std::move(words);
  }

  bool assign(ShellToken const& token) {
    if (token.kind == ShellToken::Kind::array) {
      ShellVariable value;
      if (token.appends) value = variables_[token.word.text];
      for (ShellWord const& element : token.elements) {
        for (ShellWord const& word : expand(element, variables_)) value.elements.push_back(word);
      }
      remember(token.word.text, std::move(value));
      return true;
    }
    if (token.kind != ShellToken::Kind::word) return false;
    std::string const& text = token.word.text;
    std::size_t const equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return false;
    bool const appends = text[equals - 1] == '+';
    std::string const name = text.substr(0, equals - (appends ? 1 : 0));
    if (!std::all_of(name.begin(), name.end(), is_name) || name.empty()) return false;
    ShellWord value = token.word;
    value.text = text.substr(equals + 1);
    std::string joined;
    if (appends && !variables_[name].elements.empty()) joined = variables_[name].elements[0].text;
    // An assigned value is not split: what `$A` adds keeps its blanks.
    bool is_first = true;
    for (ShellWord const& word : expand(value, variables_)) {
      joined += (is_first ? "" : " ") + word.text;
      is_first = false;
    }
    value.text = joined;
    remember(name, {{value}});
    return true;
  }

  void remember(std::string const& name, ShellVariable value) {
    Words words;
    for (ShellWord const& element : value.elements) words.push_back(element);
    words = cut_again(words, variables_);
    if (has_flag(words)) flags_of_variable_ = words;
    variables_[name] = std::move(value);
  }

  Tokens tokens_;
  ShellVariables variables_;
  std::vector<Branch> branches_;
  std::vector<std::string> notes_;
  Words command_;
  Words flags_of_variable_;
  std::size_t at_ = 0;
};

}  // namespace

LaunchCommand split_launch(std::vector<ShellWord> const& words) {
  LaunchCommand launch;
  auto const is_program = [](ShellWord const& word) {
    return word.text.size() > 3 && word.text.compare(word.text.size() - 3, 3, ".py") == 0;
  };
  auto const first_flag = std::find_if(words.begin(), words.end(), [](ShellWord const& word) {
    return word.text == "--num-layers" || word.text.rfind("--num-layers=", 0) == 0;
  });
  // A value of a flag may end in .py too; the program stands before the flags.
  auto const program = std::find_if(words.begin(), words.end(), is_program);
  auto const start = program < first_flag ? program + 1 : words.begin();
  launch.launcher.assign(words.begin(), start);
  launch.arguments.assign(start, words.end());
  launch.world_size = launched(launch.launcher);
  return launch;
}

LaunchCommand read_launch_script(std::string_view text,
                                 std::string const& origin,
                                 std::map<std::string, std::string> const& preset,
                                 Diagnostics& diagnostics) {
  std::vector<std::string> sbatch;
  Tokens tokens = shell_tokens(text, sbatch);
  Allocation const allocation = allocation_of(sbatch);
  ShellVariables variables;
  if (allocation.nodes) {
    for (char const* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}) {
      variables[name] = {{{std::to_string(*allocation.nodes), 0, 0}}};
    }
  }
  for (auto const& [name, value] : preset) variables[name] = {{{value, 0, 0}}};
  Interpreter interpreter{std::move(tokens), std::move(variables)};
  interpreter.run();
  Words const& words =
      interpreter.command().empty() ? interpreter.flags_of_variable() : interpreter.command();
  if (words.empty()) {
    diagnostics.add({Place{std::make_shared<std::string const>(origin)}, "",
                     "no command with --num-layers",
                     "a script that starts Megatron-LM with its flags"});
    return {};
  }
  LaunchCommand launch = split_launch(words);
  launch.notes = std::move(interpreter.notes());
  if (!launch.world_size) {
    auto const variable = interpreter.variables().find("WORLD_SIZE");
    if (variable != interpreter.variables().end() && variable->second.elements.size() == 1) {
      launch.world_size = count_of(variable->second.elements[0].text);
    }
  }
  if (!launch.world_size) launch.world_size = product(allocation.nodes, allocation.per_node);
  return launch;
}

}  // namespace stagecraft
