# `sh -e own_systemd.sh outer`, in a mount namespace of its own and in the folder that is shared with
# the machine: boots it, and ends it at the end of standard input.

outer() {
    mount -n -t cgroup2 none cgroup
    # Below the control group in which we are, and the root of all that the machine sees.
    group="$PWD/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/hopsyncd-test-$$"
    mkdir "$group"
    exec 3<&0
    sh -c 'echo 0 > "$1/cgroup.procs" && shift && exec "$@"' sh "$group" \
        unshare --mount --cgroup --pid --uts --ipc --net --fork --kill-child sh -e "$script" inner &
    inner=$!
    { read -r _ || true; kill -KILL $inner; } <&3 2> leftover &
    wait $inner || true
    kill $! 2> leftover || true
    until find "$group" -depth -type d -exec rmdir {} + 2> leftover; do sleep 0.1; done
}

inner() {
    # By the number that this process has outside.
    while read -r key pid _; do
        if [ "$key" = NSpid: ]; then echo "$pid" > init.pid; fi
    done < /proc/self/status
    umount -n cgroup
    mount -n --bind . /mnt
    cd /mnt
    mount -n -t proc none /proc
    mount -n -o remount,bind,ro /
    mount -n --bind /proc/sys /proc/sys
    mount -n -o remount,bind,ro /proc/sys
    mount -n -t tmpfs -o mode=755 none dev
    for name in null zero full random urandom tty; do
        touch "dev/$name"
        mount -n --bind "/dev/$name" "dev/$name"
    done
    mkdir dev/shm dev/pts
    ln -s /proc/self/fd dev/fd
    ln -s pts/ptmx dev/ptmx
    mount -n -t devpts -o newinstance,ptmxmode=666 none dev/pts
    mount -n --move dev /dev
    mount -n -t sysfs -o ro none /sys
    mount -n -t cgroup2 none /sys/fs/cgroup
    for folder in /run /var/log /etc/systemd/system; do
        mount -n -t tmpfs -o mode=755 none "$folder"
    done
    for folder in /dev/shm /tmp /var/tmp; do mount -n -t tmpfs -o mode=1777 none "$folder"; done
    cp units/* /etc/systemd/system
    . ./openings
    exec env -i PATH="$PATH" container=other SYSTEMD_UNIT_PATH=/etc/systemd/system \
        /lib/systemd/systemd --system --unit=multi-user.target --show-status=no
}

script=$0
"$1"
