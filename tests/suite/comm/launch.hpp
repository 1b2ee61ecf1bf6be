// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Starts a program under mpirun as a user's shell would, and collects what it says.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace taugrid::test {

struct Ended {
  int code = -1;  ///< as the shell's $?
  std::string err;
  double seconds = 0;  ///< from the line "# now" (from the start, where there was none) to the end

  /// Lines of stderr that start with `prefix`.
  std::vector<std::string> lines(const std::string& prefix = "taugrid:") const {
    std::vector<std::string> matching;
    std::istringstream in(err);
    for (std::string line; std::getline(in, line);) {
      if (line.rfind(prefix, 0) == 0) {
        matching.push_back(line);
      }
    }
    return matching;
  }
};

/// The program and its arguments on so many ranks. MPIEXEC is of the test's CMakeLists.txt.
inline std::vector<std::string> launched(int ranks, const std::vector<std::string>& program) {
  std::vector<std::string> command = {MPIEXEC, "-q", "-n", std::to_string(ranks), "--oversubscribe"};
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

/// A running job; what is left of it is killed at the end.
class Job {
 public:
  explicit Job(std::vector<std::string> command) : start_(std::chrono::steady_clock::now()) {
    std::string name = "/tmp/taugrid-job-XXXXXX";
    const int out = mkstemp(name.data());
    err_ = name;
    pid_ = fork();
    if (pid_ == 0) {
      setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
      setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
      dup2(out, STDERR_FILENO);
      dup2(out, STDOUT_FILENO);
      std::vector<char*> arguments;
      for (auto& word : command) {
        arguments.push_back(word.data());
      }
      arguments.push_back(nullptr);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    close(out);
  }
  ~Job() {
    if (pid_ > 0) {
      kill_all();
      waitpid(pid_, nullptr, 0);
    }
    unlink(err_.c_str());
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  void kill_all() const {
    for (const int pid : family()) {
      ::kill(pid, SIGKILL);
    }
  }
  /// The launcher and the ranks it started, which it puts into process groups of their own.
  std::vector<int> family() const {
    std::vector<int> pids{pid_};
    std::error_code gone;
    for (const auto& thread :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task", gone)) {
      std::ifstream children(thread.path() / "children");
      for (int child = 0; children >> child;) {
        pids.push_back(child);
      }
    }
    return pids;
  }
  std::string said() const {
    std::ostringstream text;
    text << std::ifstream(err_).rdbuf();
    return text.str();
  }
  /// Whether `text` was printed within `seconds`.
  bool says(const std::string& text, double seconds = 20) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
      if (said().find(text) != std::string::npos) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  /// Where the kernel holds each thread: "rank's program 1234: futex_wait_queue jbd2_log_wait_commit".
  std::string whereabouts() const {
    std::ostringstream text;
    for (const int pid : family()) {
      const std::filesystem::path process = "/proc/" + std::to_string(pid);
      text << std::ifstream(process / "comm").rdbuf() << " " << pid << ":";
      std::error_code gone;
      for (const auto& task : std::filesystem::directory_iterator(process / "task", gone)) {
        std::string where;
        std::getline(std::ifstream(task.path() / "wchan"), where);
        text << " " << where;
      }
      text << "\n";
    }
    return text.str();
  }
  /// Waits for the end; a job that takes longer is killed and has the code -1. Disks of busy machines may
  /// hold a write for half a minute.
  Ended end(double seconds = 120) {
    using clock = std::chrono::steady_clock;
    Ended result;
    int status = 0;
    std::string late;
    const std::string now = "# now\n";
    bool began = false;
    const auto limit = clock::now() + std::chrono::duration<double>(seconds);
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (!began && said().find(now) != std::string::npos) {
        began = true;
        start_ = clock::now();
      }
      if (clock::now() > limit) {
        late = "not ended after " + std::to_string(seconds) + " s; " + whereabouts();
        kill_all();
        waitpid(pid_, &status, 0);
        status = -1;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    pid_ = -1;
    if (status != -1) {
      result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    result.err = said() + late;
    if (const auto at = result.err.find(now); at != std::string::npos) result.err.erase(at, now.size());
    result.seconds = std::chrono::duration<double>(clock::now() - start_).count();
    return result;
  }

 private:
  std::chrono::steady_clock::time_point start_;
  std::string err_;
  int pid_ = -1;
};

}  // namespace taugrid::test
